"""Reading a stored exploration: damaged arrays count as no exploration, missing rights are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from crlc.data.dataset import ImageDataset
from crlc.data.options import ImportOptions
from crlc.errors import AccessError
from crlc.services.exploration import MARKER, read_exploration
from crlc.workspace import Workspace
from tests.fixtures.images import make_image
from tests.fixtures.mutations import break_array_header
from tests.fixtures.tiny_run import CLUSTERS, import_tiny_dataset, write_exploration


@pytest.fixture
def dataset(workspace: Workspace, tmp_path: Path) -> ImageDataset:
    """Return a dataset with an exploration."""
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    write_exploration(dataset)
    return dataset


@pytest.mark.parametrize("name", ["ids", "cluster", "distance", "vectors", "map"])
def test_exploration_with_a_damaged_array_is_none(dataset: ImageDataset, name: str):
    assert read_exploration(dataset) is not None
    file = dataset.folder / "exploration" / "arrays-1" / f"{name}.npy"
    array = np.load(file)
    for damaged in (array[:-1], array[..., None], np.array(5), array.astype("U5"), np.full(array.shape, "x")):
        np.save(file, damaged)
        assert read_exploration(dataset) is None
    np.save(file, array)
    break_array_header(file)
    assert read_exploration(dataset) is None


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("cluster", np.full(12, 3)),
        ("cluster", np.full(12, -1)),
        ("cluster", np.array(CLUSTERS, np.float32)),
        ("ids", np.zeros(12, np.int64)),
        ("ids", np.full(12, 2**62)),
        ("distance", np.zeros(12, np.int64)),
    ],
)
def test_exploration_with_wrong_values_is_none(dataset: ImageDataset, name: str, damaged: np.ndarray):
    np.save(dataset.folder / "exploration" / "arrays-1" / f"{name}.npy", damaged)
    assert read_exploration(dataset) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("map", 1e308), ("folder", "../exploration"), ("map", {}), ("of", "x"), ("backbone", 5), ("seed", [])],
)
def test_exploration_with_wrong_metadata_is_none(dataset: ImageDataset, name: str, value: object):
    file = dataset.folder / MARKER
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    assert read_exploration(dataset) is None


@pytest.mark.parametrize("name", ["ids.npy", "vectors.npy", "map.npy"])
def test_exploration_that_may_not_be_read_is_an_access_error(
    dataset: ImageDataset, name: str, monkeypatch: pytest.MonkeyPatch
):
    original = Path.open

    def refuse(file: Path, *arguments: object, **options: object) -> object:
        if file.name == name and "exploration" in file.parts:
            raise PermissionError(13, "Permission denied", str(file))
        return original(file, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(AccessError, match=f"{name} cannot be read: permission denied"):
        read_exploration(dataset)


@pytest.mark.parametrize("change", ["none", "add", "change", "remove"])
def test_exploration_stays_after_an_import_that_changes_no_image(
    workspace: Workspace, dataset: ImageDataset, tmp_path: Path, change: str
):
    explored, file = dataset.version, tmp_path / "set" / "a" / "00000.png"
    if change == "remove":
        file.unlink()
    elif change != "none":
        make_image(77, 40, 30).save(file.with_name("new.png") if change == "add" else file)
    workspace.import_dataset(dataset.info.location, options=ImportOptions(size=48))  # as a backbone with this size does
    again = workspace.open_dataset(dataset.name)
    assert again.version > explored
    assert (read_exploration(again) is not None) == (change == "none")
