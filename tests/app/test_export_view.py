"""The Export page, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.exploring.background import works
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.run_files import maps_folder
from crlc.workspace.runs import Runs
from crlc.workspace.sample import SAMPLE_RUN, place_sample_once
from tests.app.pages import page, texts
from tests.app.tiny_run import tiny_dataset, tiny_run


@pytest.fixture
def tiny(empty: Workspace) -> Workspace:
    tiny_run(empty, tiny_dataset(empty, empty.root.parent / "set"))
    return empty


def choose(test: AppTest, key: str) -> AppTest:
    test.radio(key="export-format").set_value(key).run()
    assert not test.exception
    return test


def press(test: AppTest, label: str) -> AppTest:
    next(one for one in test.button if one.label == label).click().run()
    for found in works("export-").values():
        found.wait()
    test.run()
    assert not test.exception
    return test


@pytest.mark.usefixtures("empty")
def test_without_anything_it_says_what_to_do():
    test = page("export")
    assert not test.exception
    assert "Bring images in on the Start page first" in test.info[0].value


def test_without_a_run_or_a_result_it_says_what_to_do(tiny: Workspace):
    test = page("export", run="none")
    assert "No run is chosen" in test.info[0].value
    (tiny.root / "runs" / "tiny-run" / "result.json").unlink()
    test = page("export")
    assert not test.exception
    assert "has no result yet" in texts(test)
    assert not test.radio


def test_labels_can_be_had_without_a_run(tiny: Workspace):
    assert "Labels of this data set" not in texts(page("export", run="none"))
    with Annotations(tiny.dataset("set")) as annotations:
        annotations.label([1, 5], "<b>cat</b>")
    for address in ({"run": "none"}, {}):
        test = page("export", **address)
        assert not test.exception
        assert "Labels of this data set" in texts(test)
        assert "2 labels." in texts(test)
        assert test.dataframe[0].value.to_dict("list") == {
            "path": ["a/00000.png", "b/00000.png"],
            "label": ["<b>cat</b>", "<b>cat</b>"],
        }
        (tiny.root / "runs" / "tiny-run" / "result.json").unlink(missing_ok=True)  # then for a run without a result


def test_the_example_can_be_taken_away(empty: Workspace):
    place_sample_once(empty)
    test = page("export")
    assert not test.exception
    assert test.query_params["run"] == SAMPLE_RUN
    assert "1,797 rows of which these are the first 12." in texts(test)
    assert test.dataframe[0].value.shape == (12, 14)
    assert "1,797 points, with a picture each" in texts(choose(test, "html"))
    assert "10 clusters · backbone small · images of 16 px" in texts(choose(test, "model"))
    choose(test, "folders")
    assert test.dataframe[0].value["images"].sum() == 1797
    assert "Nobody has labelled an image" in choose(test, "labels").info[0].value


@pytest.mark.usefixtures("tiny")
def test_a_folder_per_cluster(tmp_path: Path):
    test = choose(page("export"), "folders")
    test.segmented_control(key="export-links").select("copy")
    box = next(one for one in test.text_input if one.label == "New folder")
    box.set_value(str(tmp_path / "set" / "inside"))
    assert "lies among the originals" in texts(press(test, "Make"))
    next(one for one in test.text_input if one.label == "New folder").set_value("sorted")
    next(one for one in test.button if one.label == "Make").click().run()
    assert "sorted is no whole path" in texts(test)
    assert "originals" not in texts(test)
    next(one for one in test.text_input if one.label == "New folder").set_value(str(tmp_path / "sorted"))
    assert f"Made 12 copies in 3 folders of {tmp_path}/sorted." in texts(press(test, "Make"))
    assert sorted(folder.name for folder in (tmp_path / "sorted").iterdir()) == ["00", "01", "02"]
    assert "is not empty" in texts(press(test, "Make"))


def test_a_file_on_this_computer(tiny: Workspace, tmp_path: Path):
    with Annotations(tiny.dataset("set")) as annotations:
        annotations.exclude([1, 2])
    test = page("export")
    assert "12 rows. 2 excluded images are marked in a column." in texts(test)
    test.toggle(key="export-without-excluded").set_value(True).run()
    assert "10 rows. 2 excluded images are left out." in texts(test)
    next(one for one in test.text_input if one.label == "Folder or file").set_value(str(tmp_path))
    assert f"Wrote 10 images to {tmp_path}/tiny-run.csv." in texts(press(test, "Save"))
    assert len((tmp_path / "tiny-run.csv").read_text().splitlines()) == 11
    assert "exists already" in texts(press(test, "Save"))


def test_a_map_that_is_not_there_is_said(tiny: Workspace):
    for file in maps_folder(Runs(tiny).open("tiny-run")).glob("*.npy"):
        file.unlink()
    test = page("export")
    assert "the columns for places will be empty" in texts(test)
    test.selectbox(key="export-map").set_value("umap").run()
    assert "This map is not drawn yet" in texts(test)
    assert test.dataframe[0].value["map_x"].isna().all()


def test_damage_is_said_in_place(tiny: Workspace):
    run = tiny.root / "runs" / "tiny-run"
    next(iter(run.glob("result-*"))).joinpath("q.npy").write_bytes(b"cut")
    test = page("export")
    assert not test.exception
    assert "cannot be used" in texts(test)
