"""What is said of a run's result, with numbers worked out by hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crlc.analysis.neighbours import neighbour_graph
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.errors import DamagedError, NotFoundError, UsageError
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace import run_analysis as module
from crlc.workspace.annotations import Annotations
from crlc.workspace.clusterings import ClusterEditor
from crlc.workspace.run_analysis import RunAnalysis, edited_probabilities
from crlc.workspace.run_comparison import compare
from tests.workspace.handmade import change_content, handmade_dataset, numbered, remove_image
from tests.workspace.handmade_results import ANGLES, CLUSTERS, cosine, handmade_result


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    return handmade_dataset(workspace.root, numbered(7))


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    return handmade_result(workspace, dataset)


def opened(workspace: Workspace, run_id: str = "run-1") -> RunAnalysis:
    return RunAnalysis.open(workspace, run_id)


def exclude(dataset: ImageDataset, *ids: int) -> None:
    with Annotations(dataset) as annotations:
        annotations.exclude(ids)


def set_classes(dataset: ImageDataset, classes: list[str | None]) -> None:
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.executemany(
            "UPDATE images SET class = ? WHERE id = ?", [(name, number) for number, name in enumerate(classes, 1)]
        )


def test_what_is_gone_changed_or_excluded_does_not_count(workspace: Workspace, dataset: ImageDataset, run: RunFolder):
    assert opened(workspace).ids.tolist() == [1, 2, 3, 4, 5, 6]  # image 7 came later
    remove_image(dataset, 2)
    change_content(dataset, 5)
    exclude(dataset, 6)
    analysis = opened(workspace)
    assert analysis.ids.tolist() == [1, 3, 4]
    assert analysis.rows.tolist() == [0, 2, 3]
    assert analysis.left_out.tolist() == [1, 4, 5]
    assert analysis.clusters.tolist() == [0, 0, 1]
    np.testing.assert_allclose(analysis.confidence, [0.9, 0.6, 0.9])
    np.testing.assert_array_equal(analysis.z, np.asarray(run.result()[0]["z"])[[0, 2, 3]])
    exclude(dataset, 1, 3, 4)
    with pytest.raises(NotFoundError, match="No image of the run run-1 is left"):
        opened(workspace)


def test_nothing_is_copied_while_all_images_count(workspace: Workspace, run: RunFolder):
    analysis = opened(workspace)
    assert analysis.run.id == run.id
    assert analysis.z is analysis.all_z
    assert isinstance(analysis.z, np.memmap)
    assert isinstance(analysis.q, np.memmap)


@pytest.mark.usefixtures("run")
def test_the_graph_by_hand_and_without_an_excluded_image(workspace: Workspace, dataset: ImageDataset):
    graph = opened(workspace).graph()
    assert graph.positions[0].tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(graph.similarity[0], [cosine(a) for a in ANGLES[1:]], atol=1e-6)
    assert graph.positions[3].tolist() == [4, 5, 2, 1, 0]  # 90 degrees: 100, 120, 25, 10, 0
    exclude(dataset, 5)
    without = opened(workspace).graph()
    assert without.positions[3].tolist() == [4, 2, 1, 0]  # by their places among 1, 2, 3, 4, 6
    np.testing.assert_allclose(without.similarity[3], [cosine(30), cosine(65), cosine(80), cosine(90)], atol=1e-6)


@pytest.mark.parametrize("limit", [25_000, 1])
def test_a_part_has_the_graph_that_it_would_have_alone(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, limit):
    monkeypatch.setattr(module, "EXACT_GRAPH_LIMIT", limit)  # 1: too many places to mend, it is made anew
    z = np.random.default_rng(0).normal(size=(80, 6))
    dataset = handmade_dataset(workspace.root, numbered(80), name="many")
    handmade_result(workspace, dataset, z=z, clusters=[0] * 80, sure=[0.5] * 80)
    exclude(dataset, *range(3, 80, 5))
    analysis = opened(workspace)
    expected = neighbour_graph(np.asarray(analysis.z), 15)
    np.testing.assert_array_equal(analysis.graph().positions, expected.positions)
    np.testing.assert_allclose(analysis.graph().similarity, expected.similarity, atol=1e-6)


@pytest.mark.usefixtures("run")
def test_the_graph_is_kept_for_its_result_only(workspace: Workspace, dataset: ImageDataset):
    folder = workspace.root / "runs" / "run-1"
    opened(workspace).graph()
    first = sorted(folder.glob("graph-*"))
    assert len(first) == 2
    stamps = [file.stat().st_mtime_ns for file in first]
    opened(workspace).graph()
    assert [file.stat().st_mtime_ns for file in first] == stamps
    handmade_result(workspace, dataset, z=np.random.default_rng(1).normal(size=(6, 2)), step=2)
    opened(workspace).graph()
    second = sorted(folder.glob("graph-*"))
    assert len(second) == 2
    assert second != first
    os.truncate(second[0], 100)  # damaged: made again
    assert opened(workspace).graph().positions.shape == (6, 5)
    assert second[0].stat().st_size > 100


def test_quality_by_hand(workspace: Workspace, dataset: ImageDataset):
    # Of two other subheads one has the same groups under other numbers, one puts image 3 elsewhere.
    others = [[0, 1, 0], [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 0, 1], [1, 0, 1]]
    handmade_result(workspace, dataset, by_subhead=others)
    quality = opened(workspace).quality()
    np.testing.assert_allclose(quality.images.confidence, [0.9, 0.8, 0.6, 0.9, 0.7, 0.8])
    np.testing.assert_allclose(quality.images.margin, [0.8, 0.6, 0.2, 0.8, 0.4, 0.6], atol=1e-6)
    assert quality.images.second.tolist() == [1, 1, 1, 0, 0, 0]
    np.testing.assert_allclose(quality.images.neighbour_agreement, np.full(6, 2 / 5))
    assert quality.images.subhead_agreement is not None
    np.testing.assert_allclose(quality.images.subhead_agreement, [1, 1, 0.5, 1, 1, 1])
    within = 1 - np.mean([cosine(10), cosine(25)])
    beyond = 1 - np.mean([cosine(90), cosine(100), cosine(120)])
    assert quality.images.silhouette[0] == pytest.approx((beyond - within) / beyond, abs=1e-5)
    assert quality.clusters.size.tolist() == [3, 3]
    np.testing.assert_allclose(quality.clusters.confidence, [2.3 / 3, 2.4 / 3], rtol=1e-6)
    assert quality.clusters.closest.tolist() == [1, 0]
    assert quality.run.images == 6
    assert quality.run.confidence == pytest.approx(4.7 / 6)
    assert quality.run.largest_share == 0.5


@pytest.mark.usefixtures("run")
def test_quality_without_an_excluded_image(workspace: Workspace, dataset: ImageDataset):
    exclude(dataset, 3)
    quality = opened(workspace).quality()
    assert quality.clusters.size.tolist() == [2, 3]
    np.testing.assert_allclose(quality.images.neighbour_agreement, [1 / 4, 1 / 4, 2 / 4, 2 / 4, 2 / 4])


def test_one_image_has_no_neighbours(workspace: Workspace, dataset: ImageDataset, run: RunFolder):
    exclude(dataset, 1, 2, 3, 4, 5)
    assert run.id == "run-1"
    with pytest.raises(UsageError, match="Only one image"):
        opened(workspace).quality()


def test_probabilities_after_edits_by_hand():
    q = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], np.float32)
    # Clusters 1 and 2 are one now; a person moved the third image from 0 to the new cluster 3.
    now = edited_probabilities(q, np.array([0, 2, 0]), np.array([0, 1, 3]), {2: 1}, 4)
    np.testing.assert_allclose(now, [[0.5, 0.5, 0, 0], [0.1, 0.9, 0, 0], [0, 0.4, 0, 0.6]])


def test_edited_clusters_are_what_is_measured(workspace: Workspace, dataset: ImageDataset):
    handmade_result(workspace, dataset, clusters=[0, 0, 0, 1, 1, 2], count=3)
    before = opened(workspace)
    assert not before.is_edited
    with Annotations(dataset) as annotations:
        editor = ClusterEditor(annotations, before.clustering)
        editor.merge([1, 2])
        editor.name(1, "north")
        editor.move([3], 1)
    analysis = opened(workspace)
    assert analysis.is_edited
    assert analysis.clusters.tolist() == [0, 0, 1, 1, 1, 1]
    assert analysis.names == {1: "north"}
    assert analysis.q.argmax(axis=1).tolist() == [0, 0, 1, 1, 1, 1]
    quality = analysis.quality()
    assert quality.clusters.size.tolist() == [2, 4, 0]
    # Of image 4 (0.9 for 1, 0.1 for 2) the two are one now.
    assert quality.images.confidence[3] == pytest.approx(1.0)
    assert analysis.confidence[3] == pytest.approx(0.9)  # what the run itself said


@pytest.mark.usefixtures("run")
def test_classes_by_hand(workspace: Workspace, dataset: ImageDataset):
    assert opened(workspace).class_report() is None
    set_classes(dataset, ["a", "a", "b", "b", "b", None, "a"])
    report = opened(workspace).class_report()
    assert report is not None
    assert report.images == 5
    assert report.agreement.acc == pytest.approx(4 / 5)
    assert report.acc5 == 1.0
    assert report.confusion.tolist() == [[2, 0], [1, 2]]
    assert report.class_accuracy.tolist() == pytest.approx([1.0, 2 / 3])


def test_two_runs_by_hand(workspace: Workspace, dataset: ImageDataset):
    handmade_result(workspace, dataset)
    handmade_result(workspace, dataset, name="run-2", clusters=[1, 1, 0, 0, 0, 0])
    exclude(dataset, 6)
    found = compare(opened(workspace), opened(workspace, "run-2"))
    assert (found.images, found.only_first, found.only_second) == (5, 0, 0)
    assert found.moved_ids.tolist() == [3]
    assert (found.moved_from.tolist(), found.moved_to.tolist()) == ([0], [0])  # 0 is matched to 1
    assert found.same_share == pytest.approx(4 / 5)
    assert [(line.first, line.second, line.common) for line in found.matched] == [(0, 1, 2), (1, 0, 2)]
    other = handmade_dataset(workspace.root, numbered(6), name="other")
    handmade_result(workspace, other, name="run-3")
    with pytest.raises(Exception, match="Only runs of the same data set can be compared"):
        compare(opened(workspace), opened(workspace, "run-3"))


def two_rings(count: int) -> np.ndarray:
    """Half of the images around 0 degrees, half around 90, all different."""
    return np.concatenate([np.linspace(-8, 8, count // 2), np.linspace(82, 98, count // 2)])


def test_suggestions_and_what_is_labelled_already(workspace: Workspace):
    dataset = handmade_dataset(workspace.root, numbered(80), name="rings")
    angles = [*two_rings(40), *two_rings(40)[::-1] + 180]
    # Cluster 0 is two; 1 and 2 cut one ring in two, as mixed as can be.
    clusters = [0] * 40 + [1] * 20 + [1, 2] * 10
    z = np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], axis=1)
    handmade_result(workspace, dataset, z=z, clusters=clusters, sure=[0.8] * 80, count=3)
    found = opened(workspace).suggestions(images=6)
    assert 0 in [one.cluster for one in found.split]
    split = next(one for one in found.split if one.cluster == 0)
    assert split.sizes == (20, 20)
    assert sorted(number <= 20 for number in split.examples) == [False, True]  # ids: one of either side
    assert (found.merge[0].first, found.merge[0].second) == (1, 2)
    assert sorted({one.cluster for one in found.label}) == [0, 1, 2]
    assert [one.reason for one in found.label[:3]] == ["first of its cluster"] * 3
    chosen = [one.id for one in found.label]
    with Annotations(dataset) as annotations:
        annotations.label(chosen[:3], "seen")
        annotations.exclude(chosen[3:])
    again = opened(workspace).suggestions(images=6)
    assert not {one.id for one in again.label} & set(chosen)
    with pytest.raises(UsageError, match="ask for at least 1"):
        opened(workspace).suggestions(images=0)


def test_duplicates_and_outliers_by_id(workspace: Workspace, dataset: ImageDataset):
    handmade_result(workspace, dataset, z=np.array([[1, 0], [1, 0.001], [0, 1], [0, 1], [0.001, 1], [-1, -1]]))
    groups = opened(workspace).near_duplicates()
    assert [group.ids.tolist() for group in groups] == [[3, 4, 5], [1, 2]]
    assert groups[0].score == pytest.approx(1.0, abs=1e-5)
    exclude(dataset, 4)
    assert [group.ids.tolist() for group in opened(workspace).near_duplicates()] == [[1, 2], [3, 5]]
    with pytest.raises(UsageError, match="at most 1"):
        opened(workspace).near_duplicates(1.5)
    odd = opened(workspace).outliers(1, at_least=0.0)
    assert (odd[0].id, odd[0].cluster) == (6, 1)
    assert opened(workspace).outliers(5, at_least=1e6) == []
    with pytest.raises(UsageError, match="at least 1"):
        opened(workspace).outliers(0)


# ---- what may be wrong with a run


def result_folder(run: RunFolder) -> Path:
    return next(run.path.glob("result-*"))


def cut(folder: Path) -> None:
    os.truncate(folder / "z.npy", (folder / "z.npy").stat().st_size - 8)


def put(name: str, array: np.ndarray):
    return lambda folder: np.save(folder / f"{name}.npy", array)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut, "mmap length|cannot|size"),
        (lambda folder: (folder / "q.npy").write_text("my shopping list"), "cannot be used"),
        (lambda folder: (folder / "q.npy").write_bytes(b""), "cannot be used"),
        (put("z", np.zeros((5, 2), np.float32)), r"z has the shape \(5, 2\), and there are 6 images"),
        (put("z", np.zeros(6, np.float32)), r"z has the shape \(6,\)"),
        (put("ids", np.array([1, 2, 3, 3, 4, 5])), "not in order"),
        (put("cluster", np.array([0, 0, 0, 1, 1, 2], np.int32)), "a cluster that is none"),
    ],
)
def test_a_result_that_cannot_be_used(workspace: Workspace, run: RunFolder, damage, words: str):
    damage(result_folder(run))
    with pytest.raises(DamagedError, match=words) as error:
        opened(workspace)
    assert "run-1" in str(error.value)


def test_a_result_without_an_array(workspace: Workspace, run: RunFolder):
    (result_folder(run) / "z.npy").unlink()
    run.publish_result(result_folder(run), {})
    with pytest.raises(DamagedError, match="it has no z"):
        opened(workspace)


def test_a_result_that_says_nothing(workspace: Workspace, run: RunFolder):
    (run.path / "result.json").write_text('{"kind": "result", "version": 1}')
    with pytest.raises(DamagedError, match="cannot be used"):
        opened(workspace)
    (run.path / "result.json").write_text("{")
    with pytest.raises(DamagedError, match="cannot be read"):
        opened(workspace)
    (run.path / "result.json").unlink()
    with pytest.raises(NotFoundError, match="has no result yet"):
        opened(workspace)


def test_clusters_are_those_of_the_result_that_was_read(workspace: Workspace, dataset: ImageDataset, run: RunFolder):
    analysis = opened(workspace)
    handmade_result(workspace, dataset, clusters=[1, 1, 1, 0, 0, 0], step=2)
    assert analysis.clusters.tolist() == CLUSTERS
    assert np.asarray(analysis.result.arrays["cluster"]).tolist() == CLUSTERS
    assert opened(workspace, run.id).clusters.tolist() == [1, 1, 1, 0, 0, 0]
