"""Exploration of a dataset before training, with a real pretrained backbone and small images of two classes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crlc.analysis.maps.settings import MapSettings
from crlc.annotations.store import AnnotationStore
from crlc.data.options import ImportOptions
from crlc.errors import BusyError, UsageError
from crlc.files import writer_lock
from crlc.progress import Progress
from crlc.services import explore
from crlc.services.exploration import read_exploration
from crlc.services.explore import ExplorationSettings, compute_provisional_clusters, explore_dataset
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace
from tests.conftest import ROOT

SMALL = ExplorationSettings(2, MapSettings("pca"), network=FROZEN_HEADS.replace(image_size=48))
COUNT = 30


@pytest.fixture(scope="module")
def bars_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a NumPy archive of noisy images; horizontal and vertical bars alternate."""
    generator = np.random.default_rng(0)
    images = generator.normal(20, 8, (COUNT, 24, 24))
    images[::2, 6:18] += 150
    images[1::2, :, 6:18] += 150
    file = tmp_path_factory.mktemp("pictures") / "bars.npz"
    np.savez(file, images=images.clip(0, 255).astype(np.uint8), labels=np.arange(COUNT) % 2)
    return file


@pytest.mark.slow
def test_explore_dataset_reuses_stored_steps_and_recomputes_the_others(workspace: Workspace, bars_file: Path):
    dataset, _ = workspace.import_dataset(str(bars_file))
    assert read_exploration(dataset) is None
    stages: list[str] = []
    found = explore_dataset(workspace, dataset, SMALL, report=lambda progress: stages.append(progress.stage))
    order = ("Decoding", explore.LOADING_STAGE, "Computing features", "Provisional clusters", "PCA")
    assert [stage for stage in dict.fromkeys(stages) if stage in order] == list(order)
    assert found.metadata["provisional"] is True
    assert found.ids.tolist() == list(range(1, COUNT + 1))
    assert sorted(np.bincount(found.clusters).tolist()) == [15, 15]
    assert len(set(found.clusters[::2].tolist())) == 1  # all horizontal bars are in one cluster
    assert (found.vectors.shape[0], found.coordinates.shape, found.cluster_count) == (COUNT, (COUNT, 2), 2)
    dataset = workspace.open_dataset(dataset.name)

    stored = read_exploration(dataset)
    assert stored is not None
    np.testing.assert_array_equal(stored.coordinates, found.coordinates)
    stages.clear()
    again = explore_dataset(workspace, dataset, SMALL, report=lambda progress: stages.append(progress.stage))
    assert stages == []
    np.testing.assert_array_equal(again.clusters, found.clusters)

    # Another number of clusters needs neither the backbone nor the map again.
    three = explore_dataset(workspace, dataset, replace(SMALL, clusters=3), report=lambda one: stages.append(one.stage))
    assert stages == [explore.LOADING_STAGE, "Provisional clusters"]
    assert three.cluster_count == 3
    np.testing.assert_array_equal(three.coordinates, found.coordinates)
    folders = sorted(path.name.split("-")[0] for path in (dataset.folder / "exploration").iterdir())
    assert folders == ["arrays", "maps"]

    # By default as many clusters as classes; an excluded image is left out.
    with AnnotationStore(dataset) as annotations:
        annotations.exclude([4])
    fewer = explore_dataset(workspace, dataset, replace(SMALL, clusters=None))
    assert (fewer.cluster_count, len(fewer.ids)) == (2, COUNT - 1)
    assert 4 not in fewer.ids

    # Damaged or foreign files do not raise an error: the exploration is computed again.
    (next((dataset.folder / "exploration").glob("arrays-*")) / "map.npy").write_text("foreign")
    assert read_exploration(dataset) is None
    (dataset.folder / "exploration.json").write_text("{")
    assert read_exploration(dataset) is None
    assert len(explore_dataset(workspace, dataset, SMALL).ids) == COUNT - 1

    # Another import of the same images, such as at the size of another backbone, keeps it.
    workspace.import_dataset(str(bars_file), options=ImportOptions(size=32))
    dataset = workspace.open_dataset(dataset.name)
    assert read_exploration(dataset) is not None
    stages.clear()
    assert len(explore_dataset(workspace, dataset, SMALL, report=lambda one: stages.append(one.stage)).ids) == COUNT - 1
    assert stages == []


def test_explore_dataset_rejects_wrong_requests(workspace: Workspace, bars_file: Path):
    dataset, _ = workspace.import_dataset(str(bars_file))
    with pytest.raises(UsageError, match="clusters=1 is not allowed"):
        ExplorationSettings(1)
    with pytest.raises(UsageError, match="30 images"):
        explore_dataset(workspace, dataset, replace(SMALL, clusters=31))
    with (
        writer_lock(dataset.folder / "exploration.lock", "it"),
        pytest.raises(BusyError, match="exploration of bars"),
    ):
        explore_dataset(workspace, dataset, SMALL)
    assert not (dataset.folder / "exploration").exists()


@pytest.mark.slow
def test_explore_dataset_with_one_class_has_ten_clusters(workspace: Workspace, bars_file: Path, tmp_path: Path):
    with np.load(bars_file) as arrays:
        np.savez(tmp_path / "one.npz", images=arrays["images"], labels=np.zeros(COUNT, np.int64))
    dataset, _ = workspace.import_dataset(str(tmp_path / "one.npz"))
    assert len(dataset.summarize().classes) == 1
    assert explore_dataset(workspace, dataset, replace(SMALL, clusters=None)).cluster_count == 10


def test_compute_provisional_clusters_orders_clusters_by_size():
    vectors = np.array([[0, 0], [0, 2], [9, 0], [10, 0], [11, 0]], np.float32)
    clusters, distance = compute_provisional_clusters(vectors, 2)
    assert clusters.tolist() == [1, 1, 0, 0, 0]  # the larger one is 0
    np.testing.assert_allclose(distance, [1, 1, 1, 0, 1], atol=1e-6)


def test_compute_provisional_clusters_accepts_fewer_distinct_images_than_clusters():
    clusters, distance = compute_provisional_clusters(np.ones((4, 3), np.float32), 3)
    assert clusters.tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(distance, 0, atol=1e-6)


@pytest.mark.slow
def test_explore_dataset_stores_growing_parts_before_the_whole(
    workspace: Workspace, bars_file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(explore, "_FIRST_PART_IMAGES", 6)
    monkeypatch.setattr(explore, "_MIN_IMAGES_PER_CLUSTER", 3)
    dataset, _ = workspace.import_dataset(str(bars_file), options=ImportOptions(size=48))
    seen: dict[int, tuple[bool, int]] = {}
    features: list[tuple[int, int | None]] = []
    numbers: list[int] = []

    def report(progress: Progress) -> None:
        stored = read_exploration(dataset)
        if stored is not None:
            numbers.append(int(stored.clusters[0]))
            seen[len(stored.ids)] = (stored.is_partial, stored.metadata.get("of", 0))
        if progress.stage == "Computing features" and stored is not None and stored.is_partial:
            features.append((progress.done, progress.total))

    found = explore_dataset(workspace, dataset, SMALL, store_parts=True, report=report)
    numbers.append(int(found.clusters[0]))
    assert (len(found.ids), found.is_partial) == (COUNT, False)
    assert {6: (True, COUNT), 18: (True, COUNT)}.items() <= seen.items()
    assert len(seen) <= 3  # the two parts and perhaps the whole
    assert len(set(numbers)) == 1  # the first image keeps the number of its cluster, and so its colour
    assert features == sorted(features)  # progress is that of the whole way: it does not start again with each part
    assert {total for _, total in features} == {COUNT}
    plain = explore_dataset(workspace, dataset, replace(SMALL, seed=0), store_parts=True)  # stored: nothing to do
    np.testing.assert_array_equal(plain.coordinates, found.coordinates)

    # With all features in the cache there are no parts: a complete map is not replaced by a part of it.
    seen.clear()
    explore_dataset(workspace, dataset, replace(SMALL, clusters=3), store_parts=True, report=report)
    assert all(count == COUNT for count in seen)


@pytest.mark.slow
def test_stored_exploration_is_read_without_torch(workspace: Workspace, bars_file: Path):
    dataset, _ = workspace.import_dataset(str(bars_file))
    explore_dataset(workspace, dataset, SMALL)
    # Importing torch takes seconds, during which the Explore page of a new server would stay empty.
    script = """
import sys
from pathlib import Path
from app.view_models.view_cache import open_dataset_view
from crlc.workspace import Workspace
workspace = Workspace(Path(sys.argv[1]))
assert len(open_dataset_view(workspace, workspace.open_dataset(sys.argv[2])).ids) == int(sys.argv[3])
assert "torch" not in sys.modules
"""
    arguments = [str(workspace.root), dataset.name, str(COUNT)]
    subprocess.run([sys.executable, "-c", script, *arguments], check=True, timeout=60, cwd=ROOT)
