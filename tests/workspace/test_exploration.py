"""A data set before training, with a real pretrained backbone on small pictures of two kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crlc.analysis.map_settings import MapSettings
from crlc.errors import BusyError, UsageError
from crlc.files import writer_lock
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.exploration import ExplorationSettings, explore, provisional_clusters, read_exploration

SMALL = ExplorationSettings(2, MapSettings("pca"), network=replace(FROZEN_HEADS, image_size=48))
COUNT = 30


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Horizontal and vertical bars in turns, with some noise."""
    generator = np.random.default_rng(0)
    images = generator.normal(20, 8, (COUNT, 24, 24))
    images[::2, 6:18] += 150
    images[1::2, :, 6:18] += 150
    file = tmp_path_factory.mktemp("pictures") / "bars.npz"
    np.savez(file, images=images.clip(0, 255).astype(np.uint8), labels=np.arange(COUNT) % 2)
    return file


def test_explore_keep_and_make_anew(workspace: Workspace, pictures: Path):
    dataset, _ = workspace.import_dataset(str(pictures))
    assert read_exploration(dataset) is None
    stages: list[str] = []
    found = explore(workspace, dataset, SMALL, report=lambda progress: stages.append(progress.stage))
    assert {"Decoding", "Computing features", "Provisional clusters", "PCA"} <= set(stages)
    assert found.facts["provisional"] is True
    assert found.ids.tolist() == list(range(1, COUNT + 1))
    assert sorted(np.bincount(found.clusters).tolist()) == [15, 15]
    assert len(set(found.clusters[::2].tolist())) == 1  # bars of one kind are together
    assert (found.vectors.shape[0], found.places.shape, found.count) == (COUNT, (COUNT, 2), 2)
    dataset = workspace.dataset(dataset.name)

    kept = read_exploration(dataset)
    assert kept is not None
    np.testing.assert_array_equal(kept.places, found.places)
    stages.clear()
    again = explore(workspace, dataset, SMALL, report=lambda progress: stages.append(progress.stage))
    assert stages == []
    np.testing.assert_array_equal(again.clusters, found.clusters)

    # Another number of clusters needs neither the backbone nor the map again.
    three = explore(workspace, dataset, replace(SMALL, clusters=3), report=lambda one: stages.append(one.stage))
    assert stages == ["Provisional clusters"]
    assert three.count == 3
    np.testing.assert_array_equal(three.places, found.places)
    folders = sorted(path.name.split("-")[0] for path in (dataset.folder / "exploration").iterdir())
    assert folders == ["arrays", "maps"]

    # By default as many clusters as classes; an excluded image is left out.
    with Annotations(dataset) as annotations:
        annotations.exclude([4])
    fewer = explore(workspace, dataset, replace(SMALL, clusters=None))
    assert (fewer.count, len(fewer.ids)) == (2, COUNT - 1)
    assert 4 not in fewer.ids

    # Damaged or foreign files are no reason to fail: it is made anew.
    (next((dataset.folder / "exploration").glob("arrays-*")) / "map.npy").write_text("foreign")
    assert read_exploration(dataset) is None
    (dataset.folder / "exploration.json").write_text("{")
    assert read_exploration(dataset) is None
    assert len(explore(workspace, dataset, SMALL).ids) == COUNT - 1

    # After another import what is kept is of an older version.
    workspace.import_dataset(str(pictures))
    assert read_exploration(workspace.dataset(dataset.name)) is None


def test_what_cannot_be_explored(workspace: Workspace, pictures: Path):
    dataset, _ = workspace.import_dataset(str(pictures))
    with pytest.raises(UsageError, match="clusters=1 is not allowed"):
        ExplorationSettings(1)
    with pytest.raises(UsageError, match="there are only 30 images"):
        explore(workspace, dataset, replace(SMALL, clusters=31))
    with (
        writer_lock(dataset.folder / "exploration.lock", "it"),
        pytest.raises(BusyError, match="being written by another process"),
    ):
        explore(workspace, dataset, SMALL)
    assert not (dataset.folder / "exploration").exists()


def test_provisional_clusters_by_hand():
    vectors = np.array([[0, 0], [0, 2], [9, 0], [10, 0], [11, 0]], np.float32)
    clusters, distance = provisional_clusters(vectors, 2)
    assert clusters.tolist() == [1, 1, 0, 0, 0]  # the larger one is 0
    np.testing.assert_allclose(distance, [1, 1, 1, 0, 1], atol=1e-6)


def test_fewer_different_images_than_clusters():
    clusters, distance = provisional_clusters(np.ones((4, 3), np.float32), 3)
    assert clusters.tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(distance, 0, atol=1e-6)
