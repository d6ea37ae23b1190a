"""Neighbours and maps of a run, by image id."""

from __future__ import annotations

import os

import numpy as np
import pytest

from crlc.analysis.maps.settings import MapSettings
from crlc.analysis.neighbours.exact import search_exact
from crlc.analysis.normalization import normalize_rows
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError, UsageError
from crlc.runs.results import get_index_file, get_maps_folder
from crlc.services.analyse_run import RunAnalysis
from crlc.services.maps import ensure_map, load_map, place_on_map, start_map
from crlc.services.neighbours import RunNeighbours
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import build_numbered_paths, change_content, remove_image, write_handmade_dataset
from tests.fixtures.handmade_run import compute_cosine, place_on_circle, write_handmade_result

PCA = MapSettings("pca")


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    dataset = write_handmade_dataset(workspace.root, build_numbered_paths(7))
    write_handmade_result(workspace, dataset)
    return dataset


def open_analysis(workspace: Workspace) -> RunAnalysis:
    return RunAnalysis.open(workspace, "run-1")


def exclude(dataset: ImageDataset, *ids: int) -> None:
    with AnnotationStore(dataset) as annotations:
        annotations.exclude(ids)


@pytest.mark.usefixtures("dataset")
def test_find_nearest_returns_the_neighbours_of_one_image(workspace: Workspace):
    found = RunNeighbours(open_analysis(workspace)).find_nearest([1], 3)
    assert found.ids.tolist() == [2, 3, 4]
    np.testing.assert_allclose(
        found.similarity, [compute_cosine(10), compute_cosine(25), compute_cosine(90)], atol=1e-6
    )
    np.testing.assert_allclose(found.confidence, [0.8, 0.6, 0.9])
    assert found.clusters.tolist() == [0, 0, 1]


@pytest.mark.usefixtures("dataset")
def test_find_nearest_of_several_images_uses_their_mean(workspace: Workspace):
    neighbours = RunNeighbours(open_analysis(workspace))
    found = neighbours.find_nearest([1, 2, 2], 2)  # the mean of 0 and 10 degrees
    assert found.ids.tolist() == [3, 4]
    np.testing.assert_allclose(found.similarity, [compute_cosine(20), compute_cosine(85)], atol=1e-6)
    # The mean of 100 and 108 degrees; the length of the new vector is ignored.
    with_new = neighbours.find_nearest([5], 2, place_on_circle([108]) * 7)
    assert with_new.ids.tolist() == [4, 6]
    np.testing.assert_allclose(with_new.similarity, [compute_cosine(14), compute_cosine(16)], atol=1e-6)
    only_new = neighbours.find_nearest([], 1, place_on_circle([12]))
    assert only_new.ids.tolist() == [2]


def test_find_nearest_does_not_return_excluded_images(workspace: Workspace, dataset: ImageDataset):
    exclude(dataset, 2)
    neighbours = RunNeighbours(open_analysis(workspace))
    assert neighbours.find_nearest([1], 2).ids.tolist() == [3, 4]
    assert neighbours.find_nearest([2], 2).ids.tolist() == [1, 3]


@pytest.mark.parametrize(("k", "most"), [(0, 5), (6, 5), (-1, 5)])
@pytest.mark.usefixtures("dataset")
def test_find_nearest_rejects_k_out_of_range(workspace: Workspace, k: int, most: int):
    with pytest.raises(UsageError, match=f"from 1 to {most}"):
        RunNeighbours(open_analysis(workspace)).find_nearest([1], k)


def test_find_nearest_rejects_images_without_a_result(workspace: Workspace, dataset: ImageDataset):
    remove_image(dataset, 4)
    change_content(dataset, 5)
    neighbours = RunNeighbours(open_analysis(workspace))
    for number in (4, 5, 7, 99):
        with pytest.raises(NotFoundError, match=f"image {number}"):
            neighbours.find_nearest([1, number], 1)
    with pytest.raises(UsageError, match="at least one"):
        neighbours.find_nearest([], 1)


def test_find_nearest_uses_a_stored_approximate_index(workspace: Workspace):
    z = np.random.default_rng(0).normal(size=(500, 8))
    dataset = write_handmade_dataset(workspace.root, build_numbered_paths(500), name="many")
    run = write_handmade_result(workspace, dataset, z=z, clusters=[0] * 500, confidences=[0.5] * 500)
    exclude(dataset, *range(2, 400))
    analysis = open_analysis(workspace)
    for _ in range(2):  # the index is built, then read from its file
        neighbours = RunNeighbours(analysis, exact=False)
        assert get_index_file(run).is_file()
        found = neighbours.find_nearest([1], 90)
        left_out = np.arange(399)  # rows of images 1 to 399
        truth = search_exact(z, normalize_rows(z[:1]), 90, left_out)
        assert not set(found.ids.tolist()) & set(range(1, 400))
        assert len(set(found.ids.tolist()) & set((truth.positions[0] + 1).tolist())) >= 80
        assert (np.diff(found.similarity) <= 0).all()
    stamp = get_index_file(run).stat().st_mtime_ns
    RunNeighbours(analysis, exact=False)
    assert get_index_file(run).stat().st_mtime_ns == stamp
    os.truncate(get_index_file(run), 50)
    assert len(RunNeighbours(analysis, exact=False).find_nearest([1], 5).ids) == 5
    assert get_index_file(run).stat().st_size > 50


def test_compute_map_is_stored_and_keeps_excluded_images(workspace: Workspace, dataset: ImageDataset):
    analysis = open_analysis(workspace)
    assert load_map(analysis, PCA) is None
    coordinates = ensure_map(analysis, PCA)
    assert coordinates.shape == (6, 2)
    (file,) = get_maps_folder(analysis.run).glob("map-*.npy")
    stamp = file.stat().st_mtime_ns
    exclude(dataset, 2)
    np.testing.assert_array_equal(ensure_map(open_analysis(workspace), PCA), coordinates[[0, 2, 3, 4, 5]])
    assert file.stat().st_mtime_ns == stamp
    file.write_text("foreign")
    np.testing.assert_array_equal(ensure_map(open_analysis(workspace), PCA), coordinates[[0, 2, 3, 4, 5]])


@pytest.mark.usefixtures("dataset")
def test_place_on_map_puts_a_new_image_beside_its_neighbours(workspace: Workspace):
    analysis = open_analysis(workspace)
    with start_map(analysis, PCA) as process:
        process.wait()
    coordinates = load_map(analysis, PCA)
    assert coordinates is not None
    copy = RunNeighbours(analysis).find_nearest([], 3, place_on_circle([100]))
    np.testing.assert_allclose(place_on_map(coordinates, copy), coordinates[4], atol=1e-6)
    between = RunNeighbours(analysis).find_nearest([], 2, place_on_circle([95]))
    np.testing.assert_allclose(place_on_map(coordinates, between), (coordinates[3] + coordinates[4]) / 2, atol=1e-3)


def test_start_map_stores_the_graph_and_leaves_no_map_when_cancelled(workspace: Workspace):
    z = np.random.default_rng(0).normal(size=(60, 8))
    dataset = write_handmade_dataset(workspace.root, build_numbered_paths(60), name="many")
    run = write_handmade_result(workspace, dataset, z=z, clusters=[0] * 60, confidences=[0.5] * 60)
    seen: list[str] = []
    with start_map(open_analysis(workspace), MapSettings("umap"), lambda progress: seen.append(progress.stage)):
        assert len(list(run.path.glob("graph-*"))) == 2
    assert seen[0] == "Finding neighbours"
    assert list(get_maps_folder(run).iterdir()) == []  # the map was cancelled
