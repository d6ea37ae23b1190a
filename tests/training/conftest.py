"""Fixtures that the tests of training share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from crlc.training.settings import TrainSettings
from tests.fixtures.training_runs import train

UninterruptedRun = Callable[[TrainSettings], Path]


@pytest.fixture(scope="module")
def uninterrupted_run(tmp_path_factory: pytest.TempPathFactory) -> UninterruptedRun:
    """Return the folder of an uninterrupted run by its settings; it is trained once for a module of tests."""

    @functools.cache
    def train_once(settings: TrainSettings) -> Path:
        folder = tmp_path_factory.mktemp("uninterrupted") / "run"
        train(folder, settings)
        return folder

    return train_once
