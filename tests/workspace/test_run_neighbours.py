"""Neighbours and maps of a run, by image id."""

from __future__ import annotations

import os

import numpy as np
import pytest

from crlc.analysis.map_settings import MapSettings
from crlc.analysis.nearest import exact_search
from crlc.analysis.unit_rows import unit
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError, UsageError
from crlc.workspace import Workspace
from crlc.workspace.analysis_maps import map_of, place_on_map, ready_map, start_map
from crlc.workspace.annotations import Annotations
from crlc.workspace.run_analysis import RunAnalysis
from crlc.workspace.run_files import index_file, maps_folder
from crlc.workspace.run_neighbours import RunNeighbours
from tests.workspace.handmade import change_content, handmade_dataset, numbered, remove_image
from tests.workspace.handmade_results import cosine, handmade_result, on_circle

PCA = MapSettings("pca")


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    dataset = handmade_dataset(workspace.root, numbered(7))
    handmade_result(workspace, dataset)
    return dataset


def opened(workspace: Workspace) -> RunAnalysis:
    return RunAnalysis.open(workspace, "run-1")


def exclude(dataset: ImageDataset, *ids: int) -> None:
    with Annotations(dataset) as annotations:
        annotations.exclude(ids)


@pytest.mark.usefixtures("dataset")
def test_neighbours_of_one_by_hand(workspace: Workspace):
    found = RunNeighbours(opened(workspace)).nearest([1], 3)
    assert found.ids.tolist() == [2, 3, 4]
    np.testing.assert_allclose(found.similarity, [cosine(10), cosine(25), cosine(90)], atol=1e-6)
    np.testing.assert_allclose(found.confidence, [0.8, 0.6, 0.9])
    assert found.clusters.tolist() == [0, 0, 1]


@pytest.mark.usefixtures("dataset")
def test_neighbours_of_several_are_those_of_their_mean(workspace: Workspace):
    neighbours = RunNeighbours(opened(workspace))
    found = neighbours.nearest([1, 2, 2], 2)  # the mean of 0 and 10 degrees
    assert found.ids.tolist() == [3, 4]
    np.testing.assert_allclose(found.similarity, [cosine(20), cosine(85)], atol=1e-6)
    with_new = neighbours.nearest([5], 2, on_circle([108]) * 7)  # of 100 and 108 degrees, whatever the length
    assert with_new.ids.tolist() == [4, 6]
    np.testing.assert_allclose(with_new.similarity, [cosine(14), cosine(16)], atol=1e-6)
    only_new = neighbours.nearest([], 1, on_circle([12]))
    assert only_new.ids.tolist() == [2]


def test_excluded_images_are_nobodys_neighbours_but_have_some(workspace: Workspace, dataset: ImageDataset):
    exclude(dataset, 2)
    neighbours = RunNeighbours(opened(workspace))
    assert neighbours.nearest([1], 2).ids.tolist() == [3, 4]
    assert neighbours.nearest([2], 2).ids.tolist() == [1, 3]


@pytest.mark.parametrize(("k", "most"), [(0, 5), (6, 5), (-1, 5)])
@pytest.mark.usefixtures("dataset")
def test_a_number_that_cannot_be_had(workspace: Workspace, k: int, most: int):
    with pytest.raises(UsageError, match=f"k = {k} .* from 1 to {most}"):
        RunNeighbours(opened(workspace)).nearest([1], k)


def test_images_without_a_result(workspace: Workspace, dataset: ImageDataset):
    remove_image(dataset, 4)
    change_content(dataset, 5)
    neighbours = RunNeighbours(opened(workspace))
    for number in (4, 5, 7, 99):
        with pytest.raises(NotFoundError, match=f"no result for image {number}: it is not part of the run, or is gone"):
            neighbours.nearest([1, number], 1)
    with pytest.raises(UsageError, match="No image was given"):
        neighbours.nearest([], 1)


def test_an_approximate_index_is_kept_and_leaves_out_the_same(workspace: Workspace):
    z = np.random.default_rng(0).normal(size=(500, 8))
    dataset = handmade_dataset(workspace.root, numbered(500), name="many")
    run = handmade_result(workspace, dataset, z=z, clusters=[0] * 500, sure=[0.5] * 500)
    exclude(dataset, *range(2, 400))
    analysis = opened(workspace)
    for _ in range(2):  # made, then read
        neighbours = RunNeighbours(analysis, exact=False)
        assert index_file(run).is_file()
        found = neighbours.nearest([1], 90)
        left_out = np.arange(399)  # rows of images 1 to 399
        truth = exact_search(z, unit(z[:1]), 90, left_out)
        assert not set(found.ids.tolist()) & set(range(1, 400))
        assert len(set(found.ids.tolist()) & set((truth.positions[0] + 1).tolist())) >= 80
        assert (np.diff(found.similarity) <= 0).all()
    stamp = index_file(run).stat().st_mtime_ns
    RunNeighbours(analysis, exact=False)
    assert index_file(run).stat().st_mtime_ns == stamp
    os.truncate(index_file(run), 50)
    assert len(RunNeighbours(analysis, exact=False).nearest([1], 5).ids) == 5
    assert index_file(run).stat().st_size > 50


def test_maps_are_kept_and_stay_when_an_image_is_excluded(workspace: Workspace, dataset: ImageDataset):
    analysis = opened(workspace)
    assert ready_map(analysis, PCA) is None
    places = map_of(analysis, PCA)
    assert places.shape == (6, 2)
    (file,) = maps_folder(analysis.run).glob("map-*.npy")
    stamp = file.stat().st_mtime_ns
    exclude(dataset, 2)
    np.testing.assert_array_equal(map_of(opened(workspace), PCA), places[[0, 2, 3, 4, 5]])
    assert file.stat().st_mtime_ns == stamp
    file.write_text("foreign")
    np.testing.assert_array_equal(map_of(opened(workspace), PCA), places[[0, 2, 3, 4, 5]])


@pytest.mark.usefixtures("dataset")
def test_a_map_can_be_begun_and_read_later_and_a_new_image_has_its_place(workspace: Workspace):
    analysis = opened(workspace)
    with start_map(analysis, PCA) as process:
        process.wait()
    places = ready_map(analysis, PCA)
    assert places is not None
    copy = RunNeighbours(analysis).nearest([], 3, on_circle([100]))
    np.testing.assert_allclose(place_on_map(places, copy), places[4], atol=1e-6)
    between = RunNeighbours(analysis).nearest([], 2, on_circle([95]))
    np.testing.assert_allclose(place_on_map(places, between), (places[3] + places[4]) / 2, atol=1e-3)


def test_a_umap_gets_the_graph_that_is_kept(workspace: Workspace):
    z = np.random.default_rng(0).normal(size=(60, 8))
    dataset = handmade_dataset(workspace.root, numbered(60), name="many")
    run = handmade_result(workspace, dataset, z=z, clusters=[0] * 60, sure=[0.5] * 60)
    seen: list[str] = []
    with start_map(opened(workspace), MapSettings("umap"), lambda progress: seen.append(progress.stage)):
        assert len(list(run.path.glob("graph-*"))) == 2
    assert seen[0] == "Finding neighbours"
    assert list(maps_folder(run).iterdir()) == []  # cancelled: nothing half-done stays
