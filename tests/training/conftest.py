"""What several files of tests about training share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from crlc.training.settings import TrainSettings

Whole = Callable[[TrainSettings], Path]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Gives the folder of a run that nothing cut off, by its settings; trained once for a file of tests."""
    from tests.training.test_trainer import trained

    @functools.cache
    def run(settings: TrainSettings) -> Path:
        folder = tmp_path_factory.mktemp("whole") / "run"
        trained(folder, settings)
        return folder

    return run
