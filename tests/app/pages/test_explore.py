"""Explore and Clusters pages without a browser: empty, with a small run, and with errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.background.previews import get_preview, read_preview_stamp
from app.background.tasks import get_task, start_task
from app.state.exploring import SelectedImages
from app.view_models.image_filters import ImageFilters
from app.view_models.view_cache import open_dataset_view, open_run_view
from crlc.analysis.maps.settings import MapSettings
from crlc.annotations.store import AnnotationStore
from crlc.data.manifest import MANIFEST_FILE
from crlc.runs.results import get_maps_folder
from crlc.services.analyse_run import RunAnalysis
from crlc.services.explore import ExplorationSettings, explore_dataset
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace
from tests.fixtures.app_pages import alerts, link_labels, page
from tests.fixtures.mutations import break_array_header, replace_bytes
from tests.fixtures.tiny_run import CLUSTERS, import_tiny_dataset, write_tiny_run


@pytest.fixture
def show(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], AppTest]:
    """Return the function that runs a page in the workspace of the test."""
    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))
    return page


def get_text(at: AppTest) -> str:
    """Return the text on a page without exceptions."""
    assert not at.exception, at.exception
    return " ".join([element.proto.body for element in at.get("html")] + [element.value for element in at.info])


def press(at: AppTest, key: str) -> None:
    at.button(key=key).click().run()


@pytest.mark.parametrize("name", ["explore", "clusters"])
def test_explore_and_clusters_show_the_next_step_without_datasets(show, name: str):
    at = show(name)
    assert "No datasets yet" in get_text(at)
    assert link_labels(at) == ["Go to Start"]
    assert not at.main.button


def cancel_preview(workspace: Workspace) -> None:
    """Cancel the preview that a page has started, and wait until it has ended."""
    task = get_preview(workspace, "set")
    assert task is not None
    task.cancel()
    task.wait(60)
    assert not task.is_running


@pytest.mark.parametrize("name", ["explore", "clusters"])
def test_explore_and_clusters_compute_a_preview_before_training(show, workspace: Workspace, tmp_path: Path, name: str):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    at = show(name)
    assert "set has no runs yet" in get_text(at)
    assert "/images/set/1" in "".join(html.proto.body for html in at.main.get("html"))  # the first images, at once
    cancel_preview(workspace)
    if read_preview_stamp(dataset) is None:  # cancelled in time: nothing is started again by itself
        assert [button.key for button in show(name).main.button] == ["compute-preview"]


@pytest.mark.parametrize("name", ["explore", "clusters"])
def test_explore_and_clusters_show_errors_of_damaged_files(show, workspace: Workspace, tmp_path: Path, name: str):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    run = write_tiny_run(workspace, dataset)
    file = next(run.path.glob("result-*")) / "q.npy"
    file.write_bytes(file.read_bytes()[:150])
    assert "tiny-run cannot be used" in alerts(show(name))
    np.save(file, np.zeros((12, 3), np.float32))
    break_array_header(file)
    assert "tiny-run cannot be used" in alerts(show(name))
    np.save(file, np.zeros((2, 3), np.float32))
    assert "(2, 3)" in alerts(show(name))
    (run.path / "result.json").unlink()
    shown = get_text(show(name))
    assert "quick · 3 clusters has no result" in shown
    assert "tiny-run has no result" not in shown
    cancel_preview(workspace)  # it would import the dataset again, and so repair it
    for file_name in ("annotations.sqlite", MANIFEST_FILE):  # the annotations are read first
        with AnnotationStore(dataset) as annotations:
            annotations.label([1], "x")
        damaged = dataset.folder / file_name
        original = damaged.read_bytes()
        replace_bytes(damaged, b"CREATE TABLE meta", b"CREATE T\x93BLE meta")
        assert f"{file_name} cannot be read" in alerts(show(name))
        damaged.write_bytes(original)
    (dataset.folder / "dataset.json").write_text("{")
    assert "dataset.json" in alerts(show(name))


def select(at: AppTest, *ids: int) -> None:
    """Select images as a lasso does."""
    state = at.session_state["exploring"]
    state.selection, state.picked_ids = SelectedImages(np.array(ids), "selected"), list(ids)
    at.run()


def test_explore_filters_and_colours_images(show, workspace: Workspace, tmp_path: Path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    # One image of class b is in the cluster of class a.
    write_tiny_run(workspace, dataset, clusters=[0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    at = show("explore")
    assert all(fact in get_text(at) for fact in ("Run id: tiny-run", "quick · 3 clusters<", ">12 images<"))
    at.text_input(key="explore-search").set_value("B/0000").run()
    assert "4 of 12 images" in get_text(at)
    at.text_input(key="explore-search").set_value("nothing like that").run()
    assert "0 of 12 images" in get_text(at)
    assert [one.value for one in at.info] == ["No images match these filters."]
    at.text_input(key="explore-search").set_value("").run()
    for outcome, of, count in [("correct", "", 11), ("false negative", "b", 1), ("false positive", "a", 1),
                               ("false positive", "b", 0)]:  # fmt: skip
        at.segmented_control(key="explore-outcome").set_value(outcome).run()
        at.selectbox(key="explore-class").set_value(of).run()
        assert f">{count} of 12 images<" in get_text(at)
    at.session_state["exploring"].filters = ImageFilters(clusters=(1, 2), confidence=(70, 80))
    assert ">2 of 12 images<" in get_text(at.run())  # 0.75 in cluster 1 and 0.72 in cluster 2
    assert at.multiselect(key="explore-clusters").value == [1, 2]
    at.slider(key="explore-confidence").set_value((0, 100)).run()
    assert ">7 of 12 images<" in get_text(at)
    at.multiselect(key="explore-clusters").set_value([]).run()
    for by in ("class", "confidence", "agreement"):
        at.session_state["explore-by"] = by
        assert ">12 images<" in get_text(at.run())
        assert at.segmented_control(key="explore-by").value == by


def test_explore_acts_on_the_selection_and_undoes_it(show, workspace: Workspace, tmp_path: Path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    write_tiny_run(workspace, dataset)
    at = show("explore")
    assert not [one for one in at.button if one.key == "move-images"]  # the actions appear with a selection
    press(at, "select-all")
    assert "12 selected" in get_text(at)
    select(at, 2, 9)
    assert "2 of 12 images" in get_text(at)
    assert "2 selected" in get_text(at)
    assert at.selectbox(key="explore-target").value is None  # no cluster is chosen in advance
    assert at.button(key="move-images").disabled
    at.selectbox(key="explore-target").set_value(1).run()
    press(at, "move-images")
    assert "2 images to cluster 1" in get_text(at)
    moved = [0, 1, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    assert RunAnalysis.open(workspace, "tiny-run").clusters.tolist() == moved
    press(at, "undo-last-edit-page")
    assert RunAnalysis.open(workspace, "tiny-run").clusters.tolist() == CLUSTERS
    assert "Undone" in get_text(at)
    assert not [one for one in at.button if one.key == "undo-last-edit-page"]

    select(at, 2, 9)
    assert at.selectbox(key="explore-target").value is None  # also not the last one
    press(at, "exclude-images")
    assert len(RunAnalysis.open(workspace, "tiny-run").ids) == 10
    assert ">10 images<" in get_text(at)
    at.checkbox(key="explore-excluded").set_value(True).run()
    assert "2 of 10 images" in get_text(at)
    press(at, "select-all")
    assert not [one for one in at.button if one.key == "exclude-images"]
    press(at, "include-images")
    assert len(RunAnalysis.open(workspace, "tiny-run").ids) == 12
    at.checkbox(key="explore-excluded").set_value(False).run()
    select(at, 3)
    press(at, "clear-selection")
    assert ">12 images<" in get_text(at)
    assert "selected<" not in get_text(at)


def test_explore_does_not_restart_a_cancelled_map(show, workspace: Workspace, tmp_path: Path):
    run = write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set"))
    next(get_maps_folder(run).glob("map-tsne-*")).unlink()
    key = f"map-runs-tiny-run-{open_run_view(workspace, run).layout_version}-tsne"
    may_end = threading.Event()
    task_before = start_task(key, "t-SNE map", lambda task: (may_end.wait(60), task.set_cancel_handler(may_end.clear)))
    task_before.cancel()
    may_end.set()
    task_before.wait()
    at = show("explore")
    at.session_state["explore-method"] = "tsne"
    at.run()
    assert "until the t-SNE map is computed" in get_text(at)
    assert "12 images" in at.button(key="compute-map").label
    assert get_task(key) is task_before


def test_untrained_preview_is_marked_and_has_neighbours(show, workspace: Workspace, tmp_path: Path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    network = FROZEN_HEADS.replace(image_size=48)
    explore_dataset(workspace, dataset, ExplorationSettings(3, MapSettings("pca"), network=network))
    at = show("explore")
    at.session_state["explore-method"] = "pca"
    at.run()
    assert all(fact in get_text(at) for fact in (">set<", ">12 images<", ">3 clusters<"))
    assert any(":material/science:" in element.value for element in at.markdown)
    assert not [button for button in at.button if button.key == "move-images"]
    view = open_dataset_view(workspace, workspace.open_dataset("set"))
    near = view.find_nearest(0, 20)
    assert sorted(near.rows.tolist()) == list(range(1, 12))
    similarity = view.exploration.vectors @ view.exploration.vectors[0]
    lengths = np.linalg.norm(view.exploration.vectors, axis=1)
    np.testing.assert_allclose(near.similarity[0], np.max((similarity / lengths / lengths[0])[1:]), atol=1e-5)
    at = show("clusters")
    assert any(":material/science:" in element.value for element in at.markdown)
    assert "undo-edit" not in [button.key for button in at.button]
    with AnnotationStore(dataset) as annotations:
        annotations.exclude([1])
    without = open_dataset_view(workspace, workspace.open_dataset("set"))
    assert without.ids.tolist() == list(range(2, 13))
    assert without.load_coordinates("pca").shape == (11, 2)
    assert len(without.find_nearest(3, 11).rows) == 10
