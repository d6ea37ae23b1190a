"""Features computed ahead: the import of photographs computes what the first map needs, unless it is told not to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from crlc.services.features import compute_default_features
from crlc.workspace import Workspace
from tests.fixtures.images import save_images

pytestmark = pytest.mark.slow


def test_import_of_photographs_computes_features_once(crlc, tmp_path: Path, workspace: Workspace):
    save_images(tmp_path / "photos", 12, width=90, height=80)
    assert crlc("import", tmp_path / "photos", "--no-features").code == 0
    dataset = workspace.open_dataset("photos")
    assert dataset.get_default_size() == 160
    assert not (dataset.folder / "features").exists()
    assert crlc("import", tmp_path / "photos").code == 0
    assert list((dataset.folder / "features").glob("*/*.keys.npy"))
    assert compute_default_features(dataset, device=torch.device("cpu")) == 0
    save_images(tmp_path / "photos" / "more", 3, first_seed=100, width=90, height=80)
    assert crlc("import", tmp_path / "photos", "--no-features").code == 0
    assert compute_default_features(workspace.open_dataset("photos"), device=torch.device("cpu")) == 3


def test_import_of_small_images_computes_no_features(crlc, tmp_path: Path, workspace: Workspace):
    save_images(tmp_path / "icons", 5, width=40, height=40)
    assert crlc("import", tmp_path / "icons").code == 0
    assert not (workspace.open_dataset("icons").folder / "features").exists()
