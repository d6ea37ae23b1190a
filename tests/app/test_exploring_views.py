"""Explore and Clusters as Streamlit runs them: empty, with a small run, and with errors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.exploring.background import begin, work
from app.exploring.opened import open_dataset, open_run
from app.state.exploring import Choice
from crlc.analysis.map_settings import MapSettings
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.exploration import ExplorationSettings, explore
from crlc.workspace.run_analysis import RunAnalysis
from crlc.workspace.run_files import maps_folder
from tests.app.pages import page
from tests.app.tiny_run import tiny_dataset, tiny_run


@pytest.fixture
def show(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], AppTest]:
    """A page on the test's workspace, with the sidebar."""
    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))

    return page


def said(at: AppTest) -> str:
    assert not at.exception, at.exception
    return " ".join([element.proto.body for element in at.get("html")] + [element.value for element in at.info])


def press(at: AppTest, label: str) -> None:
    next(button for button in at.button if button.label == label).click().run()


@pytest.mark.parametrize("name", ["explore", "clusters"])
def test_without_images_it_says_what_to_do(show, name: str):
    assert "Bring some in on the Start page" in said(show(name))


@pytest.mark.parametrize("name", ["explore", "clusters"])
def test_before_training_it_offers_provisional_clusters(show, workspace: Workspace, tmp_path: Path, name: str):
    tiny_dataset(workspace, tmp_path / "set")
    at = show(name)
    assert "set has not been trained yet" in said(at)
    assert [button.label for button in at.main.button] == ["Compute provisional clusters"]


@pytest.mark.parametrize("name", ["explore", "clusters"])
def test_what_is_wrong_is_said_in_place(show, workspace: Workspace, tmp_path: Path, name: str):
    dataset = tiny_dataset(workspace, tmp_path / "set")
    run = tiny_run(workspace, dataset)
    file = next(run.path.glob("result-*")) / "q.npy"
    file.write_bytes(file.read_bytes()[:150])
    assert "The result of the run tiny-run cannot be used" in said(show(name))
    np.save(file, np.zeros((2, 3), np.float32))
    assert "The result of the run tiny-run cannot be used: q has the shape" in said(show(name))
    (run.path / "result.json").unlink()
    assert "has no result yet" in said(show(name))
    (dataset.folder / "dataset.json").write_text("{")
    assert "role='alert'" in said(show(name))


def test_explore_filters_and_orders(show, workspace: Workspace, tmp_path: Path):
    dataset = tiny_dataset(workspace, tmp_path / "set")
    # One image of class b is in the cluster of class a.
    tiny_run(workspace, dataset, clusters=[0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    at = show("explore")
    assert all(fact in said(at) for fact in (">tiny-run<", ">12 images<", ">3 clusters<"))
    at.text_input(key="explore-search").set_value("B/0000").run()
    assert "4 of 12 images" in said(at)
    at.text_input(key="explore-search").set_value("nothing like that").run()
    assert "No image is left" in said(at)
    at.text_input(key="explore-search").set_value("").run()
    for outcome, of, count in [("correct", -1, 11), ("false negative", 1, 1), ("false positive", 0, 1),
                               ("false positive", 1, 0)]:  # fmt: skip
        at.session_state["explore-outcome"] = outcome
        at.selectbox(key="explore-class").set_value(of).run()
        assert f">{count} of 12 images<" in said(at)
    at.session_state["explore-outcome"] = "all"
    at.selectbox(key="explore-class").set_value(-1).run()
    for by in ("class", "confidence", "agreement"):
        at.session_state["explore-by"] = by
        assert "12 images" in said(at.run())
    at.session_state["exploring"].choice = Choice(np.array([2, 9]), "chosen on the map")
    assert "2 of 12 images chosen on the map" in said(at.run())
    at.selectbox(key="explore-target").set_value(1).run()
    press(at, "Move 2 images")
    assert "move 2 images to cluster 1" in said(at)
    assert RunAnalysis.open(workspace, "tiny-run").clusters.tolist() == [0, 1, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    press(at, "Clear")
    assert "chosen on the map" not in said(at)


def test_a_cancelled_map_does_not_begin_again_by_itself(show, workspace: Workspace, tmp_path: Path):
    run = tiny_run(workspace, tiny_dataset(workspace, tmp_path / "set"))
    next(maps_folder(run).glob("map-tsne-*")).unlink()
    key = f"map-runs-tiny-run-{open_run(workspace, run).layout}-tsne"
    asked = threading.Event()
    begun = begin(key, "t-SNE map", lambda work: (asked.wait(20), work.stop_with(asked.clear)))
    begun.cancel()
    asked.set()
    begun.wait()
    at = show("explore")
    at.session_state["explore-method"] = "tsne"
    at.run()
    assert "Compute the t-SNE map of 12 images" in [button.label for button in at.button]
    assert "Meanwhile this is the PCA map" in said(at)
    assert work(key) is begun


def test_clusters_are_named_merged_split_and_all_undone(show, workspace: Workspace, tmp_path: Path):
    dataset = tiny_dataset(workspace, tmp_path / "set")
    run = tiny_run(workspace, dataset)
    at = show("clusters")
    words = said(at)
    assert "4 images" in words
    assert "78% sure" not in words
    assert "75% sure" in words  # (0.9 + 0.8 + 0.7 + 0.6) / 4
    assert "ACC 100.0%" in words
    at.text_input(key="name-tiny-run-1").set_value("dogs").run()
    assert "name cluster 1 &#x27;dogs&#x27;" in said(at)
    assert RunAnalysis.open(workspace, run.id).names == {1: "dogs"}
    at.text_input(key="name-tiny-run-1").set_value("a\tb").run()
    assert "control characters" in said(at)
    assert at.text_input(key="name-tiny-run-1").value == "dogs"

    next(button for button in at.button if button.key == "open-0").click().run()
    assert "All clusters" in [button.label for button in at.button]
    press(at, "Split")
    assert sorted(np.bincount(RunAnalysis.open(workspace, run.id).clusters).tolist()) == [1, 3, 4, 4]
    at.session_state["exploring"].picks = [1, 2]
    at.run()
    at.selectbox(key="move-target").set_value(2).run()
    press(at, "Move 2 picked")
    assert RunAnalysis.open(workspace, run.id).clusters.tolist()[:2] == [2, 2]
    for _ in range(3):
        press(at, "Undo")
    assert "Undone: name cluster 1" in said(at)
    now = RunAnalysis.open(workspace, run.id)
    assert not now.is_edited
    assert now.names == {}
    press(at, "Redo")
    assert RunAnalysis.open(workspace, run.id).names == {1: "dogs"}


def test_an_edit_that_cannot_be_written_is_not_called_saved(show, workspace: Workspace, tmp_path: Path):
    dataset = tiny_dataset(workspace, tmp_path / "set")
    tiny_run(workspace, dataset)
    at = show("clusters")
    with Annotations(dataset) as annotations:
        annotations.label([1], "x")
    (dataset.folder / "annotations.sqlite").write_bytes(b"no database at all" * 100)
    at.text_input(key="name-tiny-run-1").set_value("dogs").run()
    assert "Saved" not in said(at)
    assert "role='alert'" in said(at)


def test_provisional_clusters_are_marked_and_can_be_looked_at(show, workspace: Workspace, tmp_path: Path):
    dataset = tiny_dataset(workspace, tmp_path / "set")
    network = replace(FROZEN_HEADS, image_size=48)
    explore(workspace, dataset, ExplorationSettings(3, MapSettings("pca"), network=network))
    at = show("explore")
    at.session_state["explore-method"] = "pca"
    at.run()
    assert all(fact in said(at) for fact in (">set<", ">12 images<", ">3 clusters<"))
    assert any("Provisional clusters" in element.value for element in at.markdown)
    assert "Move to …" not in [button.label for button in at.button]
    subject = open_dataset(workspace, workspace.dataset("set"))
    near = subject.nearest(0, 20)
    assert sorted(near.rows.tolist()) == list(range(1, 12))
    similarity = subject.exploration.vectors @ subject.exploration.vectors[0]
    lengths = np.linalg.norm(subject.exploration.vectors, axis=1)
    np.testing.assert_allclose(near.similarity[0], np.max((similarity / lengths / lengths[0])[1:]), atol=1e-5)
    at = show("clusters")
    assert any("Provisional clusters" in element.value for element in at.markdown)
    assert not [button for button in at.button if button.label == "Open"]
    with Annotations(dataset) as annotations:
        annotations.exclude([1])
    without = open_dataset(workspace, workspace.dataset("set"))
    assert without.ids.tolist() == list(range(2, 13))
    assert without.places("pca").shape == (11, 2)
    assert len(without.nearest(3, 11).rows) == 10
