"""How long the first look takes: only what is still to do counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crlc.analysis.map_settings import MapSettings
from crlc.config import ImportOptions
from crlc.errors import SourceError
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace
from crlc.workspace.exploration import ExplorationSettings, explore
from crlc.workspace.exploration_time import ExplorationTime, exploration_time
from tests.pictures import save_pictures

SMALL = ExplorationSettings(2, MapSettings("pca"), network=replace(FROZEN_HEADS, image_size=48))
CPU = torch.device("cpu")


def test_what_is_there_already_takes_no_time(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 6)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    new = exploration_time(dataset, SMALL, CPU)
    assert min(new.decoding, new.features, new.clusters, new.map) > 0
    assert new.seconds == new.decoding + new.features + new.clusters + new.map

    dataset, _ = workspace.import_dataset(str(tmp_path / "set"), options=ImportOptions(size=48))
    decoded = exploration_time(dataset, SMALL, CPU)
    assert decoded.decoding == 0
    assert decoded.features > 0

    explore(workspace, dataset, SMALL)
    assert exploration_time(dataset, SMALL, CPU) == ExplorationTime()
    (dataset.folder / "exploration.json").unlink()
    assert exploration_time(dataset, SMALL, CPU).features == 0


def test_originals_that_are_needed_and_gone_are_said(workspace: Workspace, tmp_path: Path):
    save_pictures(tmp_path / "set", 3)
    workspace.import_dataset(str(tmp_path / "set"))
    (tmp_path / "set").rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="does not exist"):
        exploration_time(workspace.dataset("set"), SMALL, CPU)
