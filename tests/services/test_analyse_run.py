"""Analysis of a run's result, compared with values computed by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from crlc.analysis.label_suggestions import REPRESENTATIVE
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.errors import CrlcError, DamagedError, NotFoundError, UsageError
from crlc.runs.folder import RunFolder
from crlc.services import analyse_run as module
from crlc.services.analyse_run import RunAnalysis
from crlc.services.compare_runs import compare_runs
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import build_numbered_paths, change_content, remove_image, write_handmade_dataset
from tests.fixtures.handmade_run import ANGLES, CLUSTERS, compute_cosine, write_handmade_result
from tests.fixtures.mutations import break_array_header, replace_bytes


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    return write_handmade_dataset(workspace.root, build_numbered_paths(7))


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    return write_handmade_result(workspace, dataset)


def open_analysis(workspace: Workspace, run_id: str = "run-1") -> RunAnalysis:
    return RunAnalysis.open(workspace, run_id)


def exclude(dataset: ImageDataset, *ids: int) -> None:
    with AnnotationStore(dataset) as annotations:
        annotations.exclude(ids)


def set_classes(dataset: ImageDataset, classes: list[str | None]) -> None:
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.executemany(
            "UPDATE images SET class = ? WHERE id = ?", [(name, number) for number, name in enumerate(classes, 1)]
        )


def test_analysis_leaves_out_removed_changed_and_excluded_images(
    workspace: Workspace, dataset: ImageDataset, run: RunFolder
):
    assert open_analysis(workspace).ids.tolist() == [1, 2, 3, 4, 5, 6]  # image 7 came later
    remove_image(dataset, 2)
    change_content(dataset, 5)
    exclude(dataset, 6)
    analysis = open_analysis(workspace)
    assert analysis.ids.tolist() == [1, 3, 4]
    assert analysis.rows.tolist() == [0, 2, 3]
    assert analysis.left_out_rows.tolist() == [1, 4, 5]
    assert analysis.clusters.tolist() == [0, 0, 1]
    np.testing.assert_allclose(analysis.confidence, [0.9, 0.6, 0.9])
    np.testing.assert_array_equal(analysis.z, np.asarray(run.open_result()[0]["z"])[[0, 2, 3]])
    exclude(dataset, 1, 3, 4)
    with pytest.raises(NotFoundError, match="No image of"):
        open_analysis(workspace)


def test_analysis_memory_maps_arrays_while_no_image_is_left_out(workspace: Workspace, run: RunFolder):
    analysis = open_analysis(workspace)
    assert analysis.run.id == run.id
    assert analysis.z is analysis.all_z
    assert isinstance(analysis.z, np.memmap)
    assert isinstance(analysis.q, np.memmap)


@pytest.mark.usefixtures("run")
def test_load_graph_leaves_out_excluded_images(workspace: Workspace, dataset: ImageDataset):
    graph = open_analysis(workspace).load_graph()
    assert graph.positions[0].tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(graph.similarity[0], [compute_cosine(a) for a in ANGLES[1:]], atol=1e-6)
    assert graph.positions[3].tolist() == [4, 5, 2, 1, 0]  # 90 degrees: 100, 120, 25, 10, 0
    exclude(dataset, 5)
    without = open_analysis(workspace).load_graph()
    assert without.positions[3].tolist() == [4, 2, 1, 0]  # indices among the images 1, 2, 3, 4, 6
    np.testing.assert_allclose(
        without.similarity[3],
        [compute_cosine(30), compute_cosine(65), compute_cosine(80), compute_cosine(90)],
        atol=1e-6,
    )


@pytest.mark.parametrize("limit", [25_000, 1])
def test_load_graph_of_some_images_equals_their_own_graph(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, limit):
    monkeypatch.setattr(module, "EXACT_GRAPH_LIMIT", limit)  # 1: the graph is built again instead of repaired
    z = np.random.default_rng(0).normal(size=(80, 6))
    dataset = write_handmade_dataset(workspace.root, build_numbered_paths(80), name="many")
    write_handmade_result(workspace, dataset, z=z, clusters=[0] * 80, confidences=[0.5] * 80)
    exclude(dataset, *range(3, 80, 5))
    analysis = open_analysis(workspace)
    expected = build_neighbour_graph(np.asarray(analysis.z), 15)
    np.testing.assert_array_equal(analysis.load_graph().positions, expected.positions)
    np.testing.assert_allclose(analysis.load_graph().similarity, expected.similarity, atol=1e-6)


@pytest.mark.usefixtures("run")
def test_load_graph_builds_a_damaged_graph_again(workspace: Workspace):
    open_analysis(workspace).load_graph()
    positions_file, similarity_file = sorted((workspace.root / "runs" / "run-1").glob("graph-*"))
    positions, similarity = np.load(positions_file), np.load(similarity_file)
    for file, array in (
        (positions_file, np.full_like(positions, 2**62)),
        (positions_file, np.full_like(positions, -3)),
        (positions_file, positions.astype("U5")),
        (similarity_file, similarity.astype("U5")),
        (similarity_file, similarity.astype(np.int32)),
    ):
        file.unlink()  # the old file may be memory-mapped
        np.save(file, array)
        found = open_analysis(workspace).load_graph()
        np.testing.assert_array_equal(found.positions, positions)
        np.testing.assert_array_equal(found.similarity, similarity)


@pytest.mark.usefixtures("run")
def test_load_graph_stores_one_graph_per_result(workspace: Workspace, dataset: ImageDataset):
    folder = workspace.root / "runs" / "run-1"
    open_analysis(workspace).load_graph()
    first = sorted(folder.glob("graph-*"))
    assert len(first) == 2
    stamps = [file.stat().st_mtime_ns for file in first]
    open_analysis(workspace).load_graph()
    assert [file.stat().st_mtime_ns for file in first] == stamps
    write_handmade_result(workspace, dataset, z=np.random.default_rng(1).normal(size=(6, 2)), step=2)
    open_analysis(workspace).load_graph()
    second = sorted(folder.glob("graph-*"))
    assert len(second) == 2
    assert second != first
    os.truncate(second[0], 100)  # a damaged graph is built again
    assert open_analysis(workspace).load_graph().positions.shape == (6, 5)
    assert second[0].stat().st_size > 100


def test_compute_quality_matches_values_computed_by_hand(workspace: Workspace, dataset: ImageDataset):
    # Of the two other subheads, one has the same clusters under other numbers; one differs for image 3.
    others = [[0, 1, 0], [0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 0, 1], [1, 0, 1]]
    write_handmade_result(workspace, dataset, by_subhead=others)
    quality = open_analysis(workspace).compute_quality()
    np.testing.assert_allclose(quality.images.confidence, [0.9, 0.8, 0.6, 0.9, 0.7, 0.8])
    np.testing.assert_allclose(quality.images.margin, [0.8, 0.6, 0.2, 0.8, 0.4, 0.6], atol=1e-6)
    assert quality.images.second_cluster.tolist() == [1, 1, 1, 0, 0, 0]
    np.testing.assert_allclose(quality.images.neighbour_agreement, np.full(6, 2 / 5))
    assert quality.images.subhead_agreement is not None
    np.testing.assert_allclose(quality.images.subhead_agreement, [1, 1, 0.5, 1, 1, 1])
    within = 1 - np.mean([compute_cosine(10), compute_cosine(25)])
    beyond = 1 - np.mean([compute_cosine(90), compute_cosine(100), compute_cosine(120)])
    assert quality.images.silhouette[0] == pytest.approx((beyond - within) / beyond, abs=1e-5)
    assert quality.clusters.size.tolist() == [3, 3]
    np.testing.assert_allclose(quality.clusters.confidence, [2.3 / 3, 2.4 / 3], rtol=1e-6)
    assert quality.clusters.closest.tolist() == [1, 0]
    assert quality.run.images == 6
    assert quality.run.confidence == pytest.approx(4.7 / 6)
    assert quality.run.largest_share == 0.5


@pytest.mark.usefixtures("run")
def test_compute_quality_leaves_out_excluded_images(workspace: Workspace, dataset: ImageDataset):
    exclude(dataset, 3)
    quality = open_analysis(workspace).compute_quality()
    assert quality.clusters.size.tolist() == [2, 3]
    np.testing.assert_allclose(quality.images.neighbour_agreement, [1 / 4, 1 / 4, 2 / 4, 2 / 4, 2 / 4])


@pytest.mark.usefixtures("run")
def test_compute_quality_needs_two_images(workspace: Workspace, dataset: ImageDataset):
    exclude(dataset, 1, 2, 3, 4, 5)
    with pytest.raises(UsageError, match="one image"):
        open_analysis(workspace).compute_quality()


def test_compute_quality_follows_cluster_edits(workspace: Workspace, dataset: ImageDataset):
    write_handmade_result(workspace, dataset, clusters=[0, 0, 0, 1, 1, 2], count=3)
    before = open_analysis(workspace)
    assert not before.is_edited
    with AnnotationStore(dataset) as annotations:
        editor = ClusterEditor(annotations, before.clustering)
        editor.merge([1, 2])
        editor.set_name(1, "north")
        editor.move([3], 1)
    analysis = open_analysis(workspace)
    assert analysis.is_edited
    assert analysis.clusters.tolist() == [0, 0, 1, 1, 1, 1]
    assert analysis.names == {1: "north"}
    assert analysis.q.argmax(axis=1).tolist() == [0, 0, 1, 1, 1, 1]
    quality = analysis.compute_quality()
    assert quality.clusters.size.tolist() == [2, 4, 0]
    # Image 4 has 0.9 for cluster 1 and 0.1 for cluster 2, which are merged.
    assert quality.images.confidence[3] == pytest.approx(1.0)
    assert analysis.confidence[3] == pytest.approx(0.9)  # the confidence of the model


@pytest.mark.usefixtures("run")
def test_compute_class_report_counts_images_with_classes_only(workspace: Workspace, dataset: ImageDataset):
    assert open_analysis(workspace).compute_class_report() is None
    set_classes(dataset, ["a", "a", "b", "b", "b", None, "a"])
    report = open_analysis(workspace).compute_class_report()
    assert report is not None
    assert report.images == 5
    assert report.agreement.acc == pytest.approx(4 / 5)
    assert report.acc5 == 1.0
    assert report.confusion.tolist() == [[2, 0], [1, 2]]
    assert report.class_accuracy.tolist() == pytest.approx([1.0, 2 / 3])


def test_compare_runs_matches_clusters_and_lists_reassigned_images(workspace: Workspace, dataset: ImageDataset):
    write_handmade_result(workspace, dataset)
    write_handmade_result(workspace, dataset, name="run-2", clusters=[1, 1, 0, 0, 0, 0])
    exclude(dataset, 6)
    found = compare_runs(open_analysis(workspace), open_analysis(workspace, "run-2"))
    assert (found.images, found.only_first, found.only_second) == (5, 0, 0)
    assert found.reassigned_ids.tolist() == [3]
    assert (found.reassigned_from.tolist(), found.reassigned_to.tolist()) == ([0], [0])  # 0 is matched to 1
    assert found.same_share == pytest.approx(4 / 5)
    assert [(line.first, line.second, line.common) for line in found.matched] == [(0, 1, 2), (1, 0, 2)]
    other = write_handmade_dataset(workspace.root, build_numbered_paths(6), name="other")
    write_handmade_result(workspace, other, name="run-3")
    with pytest.raises(CrlcError, match="only runs of the same dataset"):
        compare_runs(open_analysis(workspace), open_analysis(workspace, "run-3"))


def make_two_groups_of_angles(count: int) -> np.ndarray:
    """Return different angles in degrees, half of them around 0 and half around 90."""
    return np.concatenate([np.linspace(-8, 8, count // 2), np.linspace(82, 98, count // 2)])


def test_suggest_proposes_splits_merges_and_unlabelled_images(workspace: Workspace):
    dataset = write_handmade_dataset(workspace.root, build_numbered_paths(80), name="rings")
    angles = [*make_two_groups_of_angles(40), *make_two_groups_of_angles(40)[::-1] + 180]
    # Cluster 0 consists of two groups; clusters 1 and 2 divide one group and overlap completely.
    clusters = [0] * 40 + [1] * 20 + [1, 2] * 10
    z = np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], axis=1)
    write_handmade_result(workspace, dataset, z=z, clusters=clusters, confidences=[0.8] * 80, count=3)
    found = open_analysis(workspace).suggest(images=6)
    assert 0 in [one.cluster for one in found.split]
    split = next(one for one in found.split if one.cluster == 0)
    assert split.sizes == (20, 20)
    assert sorted(number <= 20 for number in split.examples) == [False, True]  # ids: one of each part
    assert (found.merge[0].first, found.merge[0].second) == (1, 2)
    assert sorted({one.cluster for one in found.label}) == [0, 1, 2]
    assert [one.reason for one in found.label[:3]] == [REPRESENTATIVE] * 3
    chosen = [one.id for one in found.label]
    with AnnotationStore(dataset) as annotations:
        annotations.label(chosen[:3], "seen")
        annotations.exclude(chosen[3:])
    again = open_analysis(workspace).suggest(images=6)
    assert not {one.id for one in again.label} & set(chosen)
    with pytest.raises(UsageError, match="at least 1"):
        open_analysis(workspace).suggest(images=0)


def test_find_near_duplicates_and_outliers_leave_out_excluded_images(workspace: Workspace, dataset: ImageDataset):
    write_handmade_result(workspace, dataset, z=np.array([[1, 0], [1, 0.001], [0, 1], [0, 1], [0.001, 1], [-1, -1]]))
    groups = open_analysis(workspace).find_near_duplicates()
    assert [group.ids.tolist() for group in groups] == [[3, 4, 5], [1, 2]]
    assert groups[0].score == pytest.approx(1.0, abs=1e-5)
    exclude(dataset, 4)
    assert [group.ids.tolist() for group in open_analysis(workspace).find_near_duplicates()] == [[1, 2], [3, 5]]
    with pytest.raises(UsageError, match="at most 1"):
        open_analysis(workspace).find_near_duplicates(1.5)
    outliers = open_analysis(workspace).find_outliers(1, min_score=0.0)
    assert (outliers[0].id, outliers[0].cluster) == (6, 1)
    assert open_analysis(workspace).find_outliers(5, min_score=1e6) == []
    with pytest.raises(UsageError, match="at least 1"):
        open_analysis(workspace).find_outliers(0)


# ---- damaged results


def get_result_folder(run: RunFolder) -> Path:
    return next(run.path.glob("result-*"))


def truncate_z(folder: Path) -> None:
    os.truncate(folder / "z.npy", (folder / "z.npy").stat().st_size - 8)


def replace_array(name: str, array: np.ndarray):
    return lambda folder: np.save(folder / f"{name}.npy", array)


def add_subheads(array: np.ndarray):
    """Return a function that adds the array to a result."""

    def add(folder: Path) -> None:
        np.save(folder / "by_subhead.npy", array)
        file = folder.parent / "result.json"
        content = json.loads(file.read_text())
        file.write_text(json.dumps({**content, "arrays": [*content["arrays"], "by_subhead"]}))

    return add


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (truncate_z, "its shape .* needs"),
        (lambda folder: (folder / "q.npy").write_text("my shopping list"), "cannot be used"),
        (lambda folder: (folder / "q.npy").write_bytes(b""), "cannot be used"),
        (replace_array("z", np.zeros((5, 2), np.float32)), r"\(5, 2\)"),
        (replace_array("z", np.zeros(6, np.float32)), r"z has the shape \(6,\)"),
        (replace_array("ids", np.array([1, 2, 3, 3, 4, 5])), "ids are not ascending"),
        (
            replace_array("cluster", np.array([0, 0, 0, 1, 1, 2], np.int32)),
            "number in cluster.npy is out of range",
        ),
        (lambda folder: break_array_header(folder / "z.npy"), "cannot be used"),
        (lambda folder: replace_bytes(folder / "z.npy", b"<f4", b">f4"), "z has the type >f4"),
        (add_subheads(np.full((6, 2), np.nan, np.float32)), "by_subhead has the type float32"),
        (add_subheads(np.full((6, 2), 2**40)), "by_subhead.npy is out of range"),
        (add_subheads(np.full((6, 2), -1)), "by_subhead.npy is out of range"),
        (add_subheads(np.zeros(6, np.int32)), r"by_subhead has the shape \(6,\)"),
    ],
)
def test_analysis_refuses_a_damaged_result(workspace: Workspace, run: RunFolder, damage, words: str):
    damage(get_result_folder(run))
    with pytest.raises(DamagedError, match=words) as error:
        open_analysis(workspace)
    assert "run-1" in str(error.value)


def test_analysis_names_a_missing_entry_of_the_result(workspace: Workspace, run: RunFolder):
    file = run.path / "result.json"
    content = json.loads(file.read_text())
    del content["arrays"]
    file.write_text(json.dumps(content))
    with pytest.raises(DamagedError, match=r"result\.json is damaged: it has no arrays"):
        open_analysis(workspace)


def test_analysis_refuses_a_result_without_an_array(workspace: Workspace, run: RunFolder):
    (get_result_folder(run) / "z.npy").unlink()
    run.publish_result(get_result_folder(run), {})
    with pytest.raises(DamagedError, match="z missing"):
        open_analysis(workspace)


def test_analysis_refuses_missing_or_unreadable_metadata(workspace: Workspace, run: RunFolder):
    (run.path / "result.json").write_text('{"kind": "result", "version": 1}')
    with pytest.raises(DamagedError, match="run-1"):
        open_analysis(workspace)
    (run.path / "result.json").write_text("{")
    with pytest.raises(DamagedError, match="result.json"):
        open_analysis(workspace)
    (run.path / "result.json").unlink()
    with pytest.raises(NotFoundError, match="no result"):
        open_analysis(workspace)


def test_analysis_keeps_the_clusters_of_the_result_it_read(workspace: Workspace, dataset: ImageDataset, run: RunFolder):
    analysis = open_analysis(workspace)
    write_handmade_result(workspace, dataset, clusters=[1, 1, 1, 0, 0, 0], step=2)
    assert analysis.clusters.tolist() == CLUSTERS
    assert np.asarray(analysis.result.arrays["cluster"]).tolist() == CLUSTERS
    assert open_analysis(workspace, run.id).clusters.tolist() == [1, 1, 1, 0, 0, 0]
