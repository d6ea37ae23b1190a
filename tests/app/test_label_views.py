"""The Label page as Streamlit runs it: empty, with a small run, before training, and with errors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.keyboard import KEYS, keys_table
from app.components.label_tools import import_words
from app.state.exploring import Choice
from crlc.analysis.map_settings import MapSettings
from crlc.jobs.shared import queue_of
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.exploration import ExplorationSettings, explore
from crlc.workspace.label_table import LabelImport
from tests.app.pages import page, texts
from tests.app.tiny_run import tiny_dataset, tiny_run

SELECTION, CLUSTER_0 = "selection", "cluster 0"


def said(at: AppTest) -> str:
    assert not at.exception, at.exception
    return texts(at)


def press(at: AppTest, key: str) -> None:
    at.button(key=key).click().run()


def write_name(at: AppTest, key: str, name: str) -> None:
    at.selectbox(key=key).set_value(name).run()


def give_name(dataset, image: int, name: str) -> None:
    """AppTest's boxes take no new names: one that exists can be chosen."""
    with Annotations(dataset) as annotations:
        annotations.label([image], name)


def labels_of(dataset) -> dict[str, int]:
    with Annotations(dataset) as annotations:
        return annotations.refresh().labelled().counts()


@pytest.mark.usefixtures("empty")
def test_without_images_it_says_what_to_do():
    assert "Bring some in on the Start page" in said(page("label"))


def test_without_a_run_it_says_what_to_do(empty: Workspace, tmp_path: Path):
    tiny_dataset(empty, tmp_path / "set")
    at = page("label")
    assert "set has not been trained yet" in said(at)
    assert "Compute provisional clusters" in [button.label for button in at.button]


def test_before_training_images_can_be_labelled_but_nothing_improved(empty: Workspace, tmp_path: Path):
    dataset = tiny_dataset(empty, tmp_path / "set")
    network = replace(FROZEN_HEADS, image_size=48)
    explore(empty, dataset, ExplorationSettings(3, MapSettings("pca"), network=network))
    give_name(dataset, 12, "bird")
    at = page("label")
    assert "train first" in said(at)
    assert not [button for button in at.button if button.key == "improve"]
    assert at.selectbox(key="label-source").options[0] == "Suggested images"
    at.session_state["label-mode"] = "All at once"
    at.selectbox(key="label-source").set_value(CLUSTER_0).run()
    write_name(at, "bulk-name", "bird")
    press(at, "bulk-give")
    assert labels_of(dataset)["bird"] > 1


def test_improving_wants_labels_and_a_finished_run(empty: Workspace, tmp_path: Path):
    dataset = tiny_dataset(empty, tmp_path / "set")
    run = tiny_run(empty, dataset)
    at = page("label")
    assert "Label at least one image" in said(at)
    assert at.button(key="improve").disabled
    with Annotations(dataset) as annotations:
        annotations.label([1, 5], "cat")
    at.run()
    assert at.button(key="improve").label == "Improve with your 2 labels"
    assert not at.button(key="improve").disabled
    assert "Fewer than 4 labels: 'cat'" in said(at)
    folder = run.new_result_folder(2)
    shutil.copytree(run.path / run.result()[1]["folder"], folder, dirs_exist_ok=True)
    run.publish_result(folder, {"step": 2, "subhead": 0, "images": 8, "of": 8, "final": False})
    at = page("label")
    assert at.button(key="improve").disabled
    assert "This run is not finished" in said(at)


def test_improving_adds_a_job_and_is_followed_in_place(empty: Workspace, tmp_path: Path):
    dataset = tiny_dataset(empty, tmp_path / "set")
    tiny_run(empty, dataset)
    with Annotations(dataset) as annotations:
        annotations.label([1, 5], "cat")
    at = page("label")
    at.checkbox(key="label-with-moves").check().run()
    press(at, "improve")
    assert not at.exception
    (job,) = queue_of(empty).jobs()
    assert job.arguments == (
        "train", "set", "--method", "semi", "--parent", "tiny-run", "--labels", "workspace+moved",
    )  # fmt: skip
    # The run was made by hand and has no checkpoint to go on from: it fails, and says so here.
    assert queue_of(empty).wait_for(lambda jobs: jobs[0].has_ended, 60)
    at.run()
    assert "role='alert'" in said(at)
    press(at, "improve-dismiss")
    assert queue_of(empty).jobs() == ()
    assert at.button(key="improve").label == "Improve with your 2 labels"


def test_a_selection_is_labelled_at_once_and_undone(empty: Workspace, tmp_path: Path):
    dataset = tiny_dataset(empty, tmp_path / "set")
    tiny_run(empty, dataset)
    give_name(dataset, 12, "**bird**")
    at = page("label")
    assert at.selectbox(key="label-source").options[1] == "Cluster 0: least sure first"
    at.session_state["label-mode"] = "All at once"
    assert "Choose which images above" in said(at.run())
    at.session_state["exploring"].choice = Choice(np.array([2, 9, 4]), "chosen on the map")
    at.run()
    at.selectbox(key="label-source").set_value(SELECTION).run()
    write_name(at, "bulk-name", "**bird**")
    press(at, "bulk-give")
    assert "label 3 images '**bird**'" in said(at)
    assert labels_of(dataset) == {"**bird**": 4}
    at.session_state["exploring"].picks = [9]
    at.run()
    assert at.button(key="bulk-exclude").label == "Exclude 1"
    press(at, "bulk-exclude")
    with Annotations(dataset) as annotations:
        assert annotations.refresh().excluded().tolist() == [9]
    press(at, "undo-edit")
    press(at, "undo-edit")
    assert labels_of(dataset) == {"**bird**": 1}
    press(at, "redo-edit")
    assert labels_of(dataset) == {"**bird**": 4}


def test_a_name_is_changed_and_removed(empty: Workspace, tmp_path: Path):
    dataset = tiny_dataset(empty, tmp_path / "set")
    tiny_run(empty, dataset)
    with Annotations(dataset) as annotations:
        annotations.label([1, 2], "cat")
    at = page("label")
    at.text_input(key="label-new-name").set_value("lion").run()
    next(button for button in at.button if button.label == "Rename").click().run()
    assert labels_of(dataset) == {"lion": 2}
    assert at.session_state["labelling"].names == ["lion"]
    next(button for button in at.button if button.label == "Remove (2)").click().run()
    assert labels_of(dataset) == {}
    assert "No image has a label yet" in said(at)


def test_labels_are_imported_from_a_file_with_a_report(empty: Workspace, tmp_path: Path):
    dataset = tiny_dataset(empty, tmp_path / "set")
    tiny_run(empty, dataset)
    table = tmp_path / "labels.csv"
    table.write_text("path,label\na/00000.png,cat\nb/00000.png,dog\nnowhere.png,dog\nc/00000.png,\n")
    at = page("label")

    def take(text: str) -> None:
        at.text_input(key="label-path").set_value(text).run()
        next(button for button in at.button if button.label == "Import labels").click().run()

    take(str(table))
    words = said(at)
    assert "2 images matched: 2 labelled, 0 had their label already." in words
    assert "1 lines name no image of this data set: nowhere.png" in words
    assert "1 lines have no label." in words
    assert labels_of(dataset) == {"cat": 1, "dog": 1}
    table.write_text("path,label\na/00000.png,cat\na/00000.png,dog\n")
    take(str(table))
    assert "gives 1 image two labels: a/00000.png is 'cat' in line 2 and 'dog' in line 3" in said(at)
    take(str(tmp_path / "none.csv"))
    assert "role='alert'" in said(at)
    assert labels_of(dataset) == {"cat": 1, "dog": 1}
    assert import_words(LabelImport(3, 1, 2, 0, (), 0)).count("\n") == 0


def test_what_is_wrong_is_said_in_place(empty: Workspace, tmp_path: Path):
    dataset = tiny_dataset(empty, tmp_path / "set")
    run = tiny_run(empty, dataset)
    with Annotations(dataset) as annotations:
        annotations.label([1], "x")
    file = dataset.folder / "annotations.sqlite"
    kept = file.read_bytes()
    file.write_bytes(b"no database at all" * 100)
    assert "role='alert'" in said(page("label"))
    file.write_bytes(kept)
    result = next(run.path.glob("result-*")) / "q.npy"
    result.write_bytes(result.read_bytes()[:150])
    assert "cannot be used" in said(page("label"))


def test_other_pages_offer_to_label_what_is_chosen(empty: Workspace, tmp_path: Path):
    dataset = tiny_dataset(empty, tmp_path / "set")
    tiny_run(empty, dataset)
    give_name(dataset, 12, "bird")
    at = page("explore")
    at.session_state["exploring"].choice = Choice(np.array([2, 9]), "chosen on the map")
    at.run()
    write_name(at, "explore-label-name", "bird")
    press(at, "explore-label-give")
    assert labels_of(dataset) == {"bird": 3}
    assert not at.exception


def test_the_keys_of_all_pages_are_listed(show_page: Callable[[], AppTest]):
    table = keys_table()
    assert all(text.replace("<", "&lt;") in table for keys in KEYS.values() for _, text in keys)
    at = show_page()
    press(at, "show-keys")
    assert "give the image the name beside the key" in said(at)


@pytest.fixture
def show_page(empty: Workspace, tmp_path: Path) -> Callable[[], AppTest]:
    tiny_run(empty, tiny_dataset(empty, tmp_path / "set"))
    return lambda: page("label")
