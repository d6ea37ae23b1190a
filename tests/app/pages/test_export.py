"""The Export page, without a browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.background.tasks import list_tasks
from crlc.annotations.store import AnnotationStore
from crlc.runs.results import get_maps_folder
from crlc.services.export import FORMATS
from crlc.workspace import Workspace
from crlc.workspace.example import EXAMPLE_RUN, install_example_once
from crlc.workspace.runs import RunStore
from tests.fixtures.app_pages import alerts, link_labels, page, texts
from tests.fixtures.mutations import break_array_header
from tests.fixtures.tiny_run import import_tiny_dataset, write_exploration, write_tiny_run


@pytest.fixture
def tiny(empty: Workspace) -> Workspace:
    write_tiny_run(empty, import_tiny_dataset(empty, empty.root.parent / "set"))
    return empty


def select_format(test: AppTest, key: str) -> AppTest:
    test.radio(key="export-format").set_value(key).run()
    assert not test.exception
    return test


def press(test: AppTest, key: str) -> AppTest:
    test.button(key=key).click().run()
    for found in list_tasks("export-").values():
        found.wait()
    test.run()
    assert not test.exception
    return test


@pytest.mark.usefixtures("empty")
def test_export_page_shows_the_next_step_without_datasets():
    test = page("export")
    assert not test.exception
    assert "No datasets yet" in texts(test)
    assert link_labels(test) == ["Go to Start"]
    assert not test.radio


def test_export_page_shows_the_next_step_without_a_run_or_result(tiny: Workspace):
    test = page("export", run="none")
    assert "No run selected" in texts(test)
    assert link_labels(test) == ["Go to Train"]
    (tiny.root / "runs" / "tiny-run" / "result.json").unlink()
    test = page("export")
    assert not test.exception
    assert "quick · 3 clusters has no result" in texts(test)
    assert link_labels(test) == ["Go to Train"]
    assert not test.radio


def test_export_page_offers_labels_without_a_run(tiny: Workspace):
    assert not page("export", run="none").dataframe
    with AnnotationStore(tiny.open_dataset("set")) as annotations:
        annotations.label([1, 5], "<b>cat</b>")
    for query in ({"run": "none"}, {}):
        test = page("export", **query)
        assert not test.exception
        assert "2 labels." in texts(test)
        assert test.dataframe[0].value.to_dict("list") == {
            "path": ["a/00000.png", "b/00000.png"],
            "label": ["<b>cat</b>", "<b>cat</b>"],
        }
        (tiny.root / "runs" / "tiny-run" / "result.json").unlink(missing_ok=True)  # second pass: a run without a result


def test_export_page_previews_every_format_of_the_example(empty: Workspace):
    install_example_once(empty)
    test = page("export")
    assert not test.exception
    assert test.query_params["run"] == EXAMPLE_RUN
    assert "12 of 1,797 rows" in texts(test)
    assert test.dataframe[0].value.shape == (12, 14 + 6)  # width, height and four columns about the pixels
    assert "1,797 points" in texts(select_format(test, "html"))
    assert all(fact in texts(select_format(test, "model")) for fact in ("10 clusters", "backbone small", "16 px"))
    select_format(test, "folders")
    assert test.dataframe[0].value["images"].sum() == 1797
    assert "no labels yet" in texts(select_format(test, "labels"))


@pytest.mark.usefixtures("tiny")
def test_export_page_creates_a_folder_per_cluster(tmp_path: Path):
    test = select_format(page("export"), "folders")
    test.segmented_control(key="export-links").select("copy")
    folder = "export-destination-folders"
    test.text_input(key=folder).set_value(str(tmp_path / "set" / "inside"))
    assert "inside the original images of set" in alerts(press(test, "export-save-folders"))
    test.text_input(key=folder).set_value("sorted")
    test.button(key="export-save-folders").click().run()
    assert "absolute path" in alerts(test)
    assert str(tmp_path / "set" / "inside") not in texts(test)
    test.text_input(key=folder).set_value(str(tmp_path / "sorted"))
    written = texts(press(test, "export-save-folders"))
    assert all(fact in written for fact in ("12 copies", "3 folders", f"{tmp_path}/sorted"))
    assert sorted(folder.name for folder in (tmp_path / "sorted").iterdir()) == ["00", "01", "02"]
    assert f"{tmp_path}/sorted is not empty" in alerts(press(test, "export-save-folders"))


@pytest.mark.usefixtures("tiny")
def test_export_page_writes_the_formats_of_other_tools(tmp_path: Path):
    test = page("export")
    for key in ("imagefolder", "fiftyone"):
        select_format(test, key).text_input(key=f"export-destination-{key}").set_value(str(tmp_path / key))
        assert "12 links" in texts(press(test, f"export-save-{key}"))
        assert "FOLDER" in test.code[0].value
    assert (tmp_path / "imagefolder" / "metadata.csv").is_file()
    for key in ("label-studio", "coco"):
        select_format(test, key).text_input(key=f"export-destination-{key}").set_value(str(tmp_path))
        assert "12 images" in texts(press(test, f"export-save-{key}"))
        assert len([*tmp_path.glob(f"*-{key}.json")]) == 1
    assert "onnxruntime" in select_format(test, "onnx").code[0].value


def test_export_page_saves_a_file_and_never_overwrites_it(tiny: Workspace, tmp_path: Path):
    with AnnotationStore(tiny.open_dataset("set")) as annotations:
        annotations.exclude([1, 2])
    RunStore(tiny).rename(RunStore(tiny).open("tiny-run"), "First try")
    test = page("export")
    assert "12 rows. 2 excluded images" in texts(test)
    test.toggle(key="export-without-excluded").set_value(True).run()
    assert "10 rows. 2 excluded images" in texts(test)
    test.text_input(key="export-destination-csv").set_value(str(tmp_path))
    written = texts(press(test, "export-save-csv"))
    assert "10 images" in written
    assert f"{tmp_path}/set-First-try.csv" in written
    assert len((tmp_path / "set-First-try.csv").read_text().splitlines()) == 11
    assert f"{tmp_path}/set-First-try.csv" in alerts(press(test, "export-save-csv"))


def test_export_page_announces_that_a_missing_map_is_computed(tiny: Workspace):
    assert "UMAP map is computed first" not in texts(page("export"))
    for file in get_maps_folder(RunStore(tiny).open("tiny-run")).glob("*.npy"):
        file.unlink()
    test = page("export")
    assert "UMAP map is computed first" in texts(test)
    assert test.dataframe[0].value["map_x"].isna().all()


def test_export_page_exports_provisional_clusters(tiny: Workspace):
    RunStore(tiny).delete(RunStore(tiny).open("tiny-run"))
    assert "export-format" not in {radio.key for radio in page("export").radio}  # nothing was explored yet
    write_exploration(tiny.open_dataset("set"))
    test = page("export")
    assert not test.exception
    formats = [entry.title for key, entry in FORMATS.items() if key not in ("model", "labels", "onnx")]
    assert test.radio(key="export-format").options == formats
    assert set(test.dataframe[0].value["run"]) == {"provisional"}
    assert test.dataframe[0].value["confidence"].isna().all()
    assert test.dataframe[0].proto.placeholder == ""  # not "None"
    assert test.dataframe[0].proto.HasField("placeholder")
    assert "sharpness" in test.dataframe[0].value
    test.toggle(key="export-columns").set_value(False).run()
    assert "sharpness" not in test.dataframe[0].value
    test.toggle(key="export-absolute-paths").set_value(True).run()
    assert test.dataframe[0].value["absolute_path"].str.endswith(".png").all()


@pytest.mark.parametrize("damage", [break_array_header, lambda file: file.write_bytes(b"cut")])
def test_export_page_shows_the_error_of_a_damaged_result(tiny: Workspace, damage: Callable[[Path], object]):
    run = tiny.root / "runs" / "tiny-run"
    damage(next(iter(run.glob("result-*"))) / "q.npy")
    test = page("export")
    assert not test.exception
    assert "tiny-run cannot be used" in alerts(test)


def test_export_page_warns_if_the_run_is_not_finished(tiny: Workspace):
    assert "after epoch" not in texts(page("export"))
    marker = RunStore(tiny).open("tiny-run").path / "result.json"
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "final": False, "step": 5, "images": 12, "of": 12}))
    test = page("export")
    assert not test.exception
    assert "after epoch" in texts(test)
    assert "role='status'" in next(one.proto.body for one in test.get("html") if "after epoch" in one.proto.body)
