"""Time estimate of an exploration, which counts only missing steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from crlc.analysis.maps.settings import MapSettings
from crlc.data.options import ImportOptions
from crlc.errors import SourceError
from crlc.services.explore import ExplorationSettings, explore_dataset
from crlc.services.explore_time import ExplorationTime, estimate_exploration
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace
from tests.fixtures.images import save_images

SMALL = ExplorationSettings(2, MapSettings("pca"), network=FROZEN_HEADS.replace(image_size=48))
CPU = torch.device("cpu")


@pytest.mark.slow
def test_estimate_exploration_counts_missing_steps_only(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 6)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    new = estimate_exploration(dataset, SMALL, CPU)
    assert min(new.decoding, new.features, new.clusters, new.map) > 0
    assert new.seconds == new.decoding + new.features + new.clusters + new.map

    dataset, _ = workspace.import_dataset(str(tmp_path / "set"), options=ImportOptions(size=48))
    decoded = estimate_exploration(dataset, SMALL, CPU)
    assert decoded.decoding == 0
    assert decoded.features > 0

    explore_dataset(workspace, dataset, SMALL)
    assert estimate_exploration(dataset, SMALL, CPU) == ExplorationTime()
    (dataset.folder / "exploration.json").unlink()
    assert estimate_exploration(dataset, SMALL, CPU).features == 0


def test_estimate_exploration_refuses_missing_originals(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 3)
    workspace.import_dataset(str(tmp_path / "set"))
    (tmp_path / "set").rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match=r"set does not exist\..* relink the dataset"):
        estimate_exploration(workspace.open_dataset("set"), SMALL, CPU)
