"""Clusters page without a browser: edits of an open cluster, the preview of a split, and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.services.analyse_run import RunAnalysis
from crlc.workspace import Workspace
from tests.fixtures.app_pages import alerts, page, texts
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run


@pytest.fixture
def dataset(empty: Workspace, tmp_path: Path) -> ImageDataset:
    """Return a dataset with a run of three clusters."""
    dataset = import_tiny_dataset(empty, tmp_path / "set")
    write_tiny_run(empty, dataset)
    return dataset


def get_text(at: AppTest) -> str:
    """Return the text on a page without exceptions."""
    assert not at.exception, at.exception
    return texts(at)


def press(at: AppTest, key: str) -> None:
    at.button(key=key).click().run()


def open_cluster(cluster: int) -> AppTest:
    """Return the page with an open cluster; the cards that open it are a component, which AppTest cannot click."""
    at = page("clusters")
    at.session_state["exploring"].cluster = cluster
    return at.run()


def read_clusters(workspace: Workspace) -> list[int]:
    return RunAnalysis.open(workspace, "tiny-run").clusters.tolist()


@pytest.mark.usefixtures("dataset")
def test_open_cluster_is_named_with_undo(empty: Workspace):
    at = open_cluster(1)
    text = get_text(at)
    assert all(fact in text for fact in (">4 images<", ">80% "))  # (0.95 + 0.85 + 0.75 + 0.65) / 4
    at.text_input(key="name-tiny-run-1").set_value("dogs").run()
    assert "'dogs'" in get_text(at)
    assert RunAnalysis.open(empty, "tiny-run").names == {1: "dogs"}
    at.text_input(key="name-tiny-run-1").set_value("a\tb").run()
    assert "control characters" in alerts(at)
    assert at.text_input(key="name-tiny-run-1").value == "dogs"
    press(at, "undo-edit")
    assert RunAnalysis.open(empty, "tiny-run").names == {}
    press(at, "redo-edit")
    assert RunAnalysis.open(empty, "tiny-run").names == {1: "dogs"}


@pytest.mark.usefixtures("dataset")
def test_level_is_previewed_and_used_with_undo(empty: Workspace):
    before = read_clusters(empty)
    at = page("clusters")
    assert not at.slider
    at.session_state["exploring"].shows_levels = True  # AppTest cannot click a segmented control with several values
    at.run()
    at.slider(key="cluster-level").set_value(2).run()
    assert "Preview of 2 clusters instead of 3" in get_text(at)
    assert not [one for one in at.button if one.key == "merge-ticked"]  # a preview cannot be edited
    assert read_clusters(empty) == before
    press(at, "leave-level")
    assert at.slider(key="cluster-level").value == 3
    at.slider(key="cluster-level").set_value(2).run()
    press(at, "use-level")
    assert "use 2 clusters instead of 3" in get_text(at)
    assert len(set(read_clusters(empty))) == 2
    press(at, "undo-edit")
    assert read_clusters(empty) == before


@pytest.mark.usefixtures("dataset")
def test_split_is_previewed_before_it_is_done(empty: Workspace):
    before = read_clusters(empty)
    at = open_cluster(0)
    press(at, "preview-split")
    assert all(fact in get_text(at) for fact in ("Part 1: 3 images", "Part 2: 1 image"))
    assert read_clusters(empty) == before
    at.number_input(key="split-parts").set_value(3).run()
    assert "Part 3: 1 image" in get_text(at)
    at.number_input(key="split-parts").set_value(2).run()
    press(at, "cancel-split")
    assert "Part 1" not in get_text(at)

    # The image at 40 degrees is apart from those at 0, 4 and 8 degrees.
    press(at, "preview-split")
    press(at, "split-cluster")
    assert read_clusters(empty) == [0, 0, 0, 3, *before[4:]]
    assert "2 parts of cluster 0" in get_text(at)
    press(at, "undo-edit")
    assert read_clusters(empty) == before
    assert at.number_input(key="split-parts").value == 2  # the cluster is open again
    assert at.query_params["cluster"] == "0"  # also after a refresh


@pytest.mark.usefixtures("dataset")
def test_picked_images_move_only_to_a_chosen_cluster(empty: Workspace):
    at = open_cluster(0)
    at.session_state["exploring"].picked_ids = [1, 2]
    at.run()
    assert at.button(key="move-picked").disabled
    at.selectbox(key="move-target").set_value(2).run()
    press(at, "move-picked")
    assert read_clusters(empty)[:4] == [2, 2, 0, 0]
    press(at, "undo-edit")
    assert not RunAnalysis.open(empty, "tiny-run").is_edited


@pytest.mark.usefixtures("dataset")
def test_clusters_page_compares_clusters_with_classes():
    at = page("clusters")
    assert "ACC" not in get_text(at)
    at.session_state["clusters-tab"] = "Accuracy against ground truth"
    assert "ACC 100.0%" in get_text(at.run())


@pytest.mark.usefixtures("dataset")
def test_dismissed_suggestion_is_gone_in_every_new_session():
    def open_suggestions() -> tuple[AppTest, list[str]]:
        at = page("clusters")
        at.session_state["clusters-tab"] = "Suggestions"
        at.run()
        return at, [button.key for button in at.button if button.key.startswith("dismiss-")]

    at, keys = open_suggestions()
    assert len(keys) > 1
    press(at, keys[0])
    assert keys[0] not in [button.key for button in at.button]
    at, left = open_suggestions()
    assert left == keys[1:]
    press(at, "restore-suggestions")
    assert open_suggestions()[1] == keys


def test_clusters_page_shows_the_error_of_an_edit_that_cannot_be_saved(dataset: ImageDataset):
    at = open_cluster(1)
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], "x")
    (dataset.folder / "annotations.sqlite").write_bytes(b"no database at all" * 100)
    at.text_input(key="name-tiny-run-1").set_value("dogs").run()
    assert "dogs" not in get_text(at)
    assert "annotations.sqlite" in alerts(at)


@pytest.mark.usefixtures("dataset")
def test_open_cluster_is_in_the_url():
    test = page("clusters", cluster="1")
    assert not test.exception
    assert test.session_state["exploring"].cluster == 1
    assert test.run().query_params["cluster"] == "1"
    test.session_state["exploring"].cluster = None
    assert "cluster" not in test.run().query_params
    assert page("clusters", cluster="x").session_state["exploring"].cluster is None


@pytest.mark.usefixtures("dataset")
def test_shortcuts_replace_an_image_whose_closing_was_lost():
    at = page("clusters", image="3")
    assert "lightbox" in str(at.get("bidi_component"))
    press(at, "show-keys")
    assert "undo the last decision" in get_text(at)
    assert at.session_state["exploring"].open_image is None
