"""The Start page, without a browser."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st

from app.background.commands import get_command_runner
from app.background.imports import list_imports, start_import
from app.components.datasets import import_form
from app.components.datasets.dataset_card import describe_summary
from app.components.map.first_map_estimate import build_first_map_estimate_command
from app.pages.start import list_datasets
from crlc.data.imported_vectors import read_imported_vectors
from crlc.data.importer import Importer
from crlc.data.manifest import Manifest
from crlc.files import writer_lock
from crlc.formatting import format_duration
from crlc.jobs.shared_queue import get_queue
from crlc.progress import Progress
from crlc.workspace import Workspace
from crlc.workspace.example import EXAMPLE_RUN, install_example_once
from tests.fixtures.app_pages import alerts, page, run_ids, texts
from tests.fixtures.broken_files import make_broken_folder
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run


@pytest.fixture
def photos(empty: Workspace) -> Path:
    """Return an imported folder with three images, of which two are identical, and a file that is not an image."""
    folder = empty.root.parent / "photos"
    save_images(folder, 2)
    shutil.copy(folder / "00000.png", folder / "copy.png")
    (folder / "broken.png").write_bytes(b"")
    empty.import_dataset(str(folder))
    return folder


def make_older(workspace: Workspace, name: str, seconds: int) -> None:
    """Set the last import of a dataset back by some seconds."""
    file = workspace.root / "datasets" / name / "dataset.json"
    os.utime(file, (file.stat().st_mtime - seconds,) * 2)


@pytest.mark.usefixtures("empty")
def test_start_page_shows_the_next_step_without_datasets():
    test = page("start")
    assert not test.exception
    assert "No datasets yet" in test.info[0].value
    assert not test.get("expander")[1:]  # only the import options, no card


def test_start_page_marks_the_example(empty: Workspace):
    install_example_once(empty)
    test = page("start")
    assert not test.exception
    assert "Example: 1,797" in texts(test)
    assert test.query_params == {"dataset": "digits", "run": EXAMPLE_RUN}


@pytest.mark.usefixtures("photos")
def test_dataset_card_shows_counts_and_problems(empty: Workspace):
    summary = empty.open_dataset("photos").summarize()
    assert describe_summary(summary) == "3 images · 32 px · 1 unreadable · 1 exact duplicate"
    test = page("start")
    assert describe_summary(summary) in texts(test)
    unreadable, duplicates = (one.label for one in test.expander[1:])
    assert unreadable.startswith("1 file ")
    assert duplicates == "1 exact duplicate"
    assert "the file is empty" in texts(test)
    assert "/problems/photos" in texts(test)
    assert "/duplicates/photos" in texts(test)


def test_dataset_card_explains_every_unreadable_file(empty: Workspace):
    folder = empty.root.parent / "messy"
    make_broken_folder(folder)
    empty.import_dataset(str(folder))
    unreadable = empty.open_dataset("messy").summarize().unreadable
    shown = texts(page("start"))
    assert len(unreadable) > 6
    assert [reason for reason, number in unreadable.items() if f"{number} × {reason}" not in shown] == []  # noqa: RUF001


@pytest.mark.slow
@pytest.mark.usefixtures("photos")
def test_dataset_card_shows_the_estimated_time_to_the_first_map(empty: Workspace):
    test = page("start")
    assert not test.exception
    result = get_command_runner().wait(build_first_map_estimate_command(empty, empty.open_dataset("photos")), 90)
    assert result.content is not None, result.error
    assert result.content["seconds"] == pytest.approx(
        sum(result.content[part] for part in ("decoding", "features", "clusters", "map"))
    )
    assert result.content["features"] > 0
    assert format_duration(result.content["seconds"]) in texts(test.run())


def test_first_map_estimate_does_not_start_while_a_job_is_queued(trained: Workspace):
    save_images(trained.root.parent / "new", 2)
    trained.import_dataset(str(trained.root.parent / "new"))
    get_queue(trained).close()  # so that the job stays queued
    get_queue(trained).submit(["digits"])
    test = page("start")
    assert not test.exception
    assert (
        get_command_runner().get_result(build_first_map_estimate_command(trained, trained.open_dataset("new"))) is None
    )


def test_list_datasets_returns_the_last_import_first(empty: Workspace):
    for number, name in enumerate(("b", "c", "a")):
        save_images(empty.root.parent / name, 2, first_seed=10 * number)
        empty.import_dataset(str(empty.root.parent / name))
        make_older(empty, name, seconds=100 * (3 - number))
    assert list_datasets(empty) == ["a", "c", "b"]
    empty.import_dataset(str(empty.root.parent / "b"))
    assert list_datasets(empty) == ["b", "a", "c"]


def test_import_form_applies_its_options(empty: Workspace):
    folder = empty.root.parent / "sorted"
    for number, name in enumerate(("cats", "dogs")):
        save_images(folder / name, 3, first_seed=10 * number)
    test = page("start")
    test.text_input(key="import-path").set_value(str(folder))
    test.number_input(key="import-size").set_value(16)
    test.number_input(key="import-limit").set_value(4)
    test.selectbox(key="import-classes").select("none")
    test.button(key="import-folder").click().run()
    assert not test.exception
    for task in list_imports(empty).values():
        task.wait()
    summary = empty.open_dataset("sorted").summarize()
    assert (summary.readable, summary.sizes, summary.classes) == (4, (16,), {})


def test_sample_data_button_submits_a_training(empty: Workspace):
    get_queue(empty).close()  # so that the job stays queued
    test = page("start")
    test.button(key="try-digits").click().run()
    assert not test.exception
    (job,) = get_queue(empty).read_jobs()
    assert (job.arguments, job.title) == (("train", "digits", "--preset", "quick"), "digits")
    version = empty.open_dataset("digits").version
    test.button(key="try-digits").click().run()
    assert len(get_queue(empty).read_jobs()) == 2
    assert empty.open_dataset("digits").version == version  # not imported again: computed results stay valid


def test_dataset_card_deletes_the_dataset_with_its_runs(trained: Workspace):
    write_tiny_run(trained, import_tiny_dataset(trained, trained.root.parent / "set"))
    test = page("start")
    assert "2 runs" in texts(test)
    assert "1 run." in texts(test)
    test.button(key="remove-digits").click().run()
    assert not test.exception
    assert (trained.list_dataset_names(), run_ids(trained)) == (["set"], ["tiny-run"])
    shutil.rmtree(trained.root.parent / "set")  # the originals are gone
    (trained.root / "datasets" / "set" / "dataset.json").write_text("{")
    test = page("start")
    assert "dataset.json" in alerts(test)
    test.button(key="remove-set").click().run()
    assert (trained.list_dataset_names(), run_ids(trained)) == ([], [])
    assert "No datasets yet" in page("start").info[0].value


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/mem, whose first bytes give an I/O error")
def test_dataset_card_does_not_delete_a_dataset_whose_disk_does_not_answer(empty: Workspace):
    for name in ("away", "here"):
        import_tiny_dataset(empty, empty.root.parent / name)
    file = empty.root / "datasets" / "away" / "dataset.json"
    file.unlink()
    file.symlink_to("/proc/self/mem")
    test = page("start")
    assert not test.exception
    assert "dataset.json cannot be used at the moment" in alerts(test)
    keys = [button.key for button in test.button]
    assert "remove-here" in keys
    assert "remove-away" not in keys


def test_dataset_card_does_not_delete_a_dataset_being_written(trained: Workspace):
    with writer_lock(trained.root / "locks" / "dataset-digits.lock", "The dataset"):
        test = page("start")
        test.button(key="remove-digits").click().run()
    assert not test.exception
    assert "is being written by another process" in alerts(test)
    assert trained.list_dataset_names() == ["digits"]


def test_dataset_card_relinks_moved_originals(empty: Workspace, photos: Path):
    elsewhere = photos.with_name("elsewhere")
    photos.rename(elsewhere)
    st.cache_data.clear()  # the check of the originals is cached for some seconds
    test = page("start")
    assert f"{photos} does not exist" in texts(test)
    test.text_input(key="originals-photos").set_value(str(elsewhere))
    test.button(key="relink-originals-photos").click().run()
    assert not test.exception
    assert "does not exist" not in texts(test)
    assert empty.open_dataset("photos").info.location == str(elsewhere)


def test_dataset_card_resumes_an_interrupted_import(empty: Workspace, photos: Path):
    with Manifest(empty.open_dataset("photos").folder) as manifest, manifest.transaction():
        manifest.set_complete(complete=False)
    test = page("start")
    assert "3 of 3 images" in texts(test)
    assert alerts(test) == ""  # nothing is wrong
    assert test.button(key="train-photos").disabled
    test.button(key="carry-on-photos").click().run()
    for task in list_imports(empty).values():
        task.wait()
    test.run()
    assert not test.exception
    assert "3 images · 32 px" in texts(test)
    assert alerts(test) == ""
    assert empty.list_dataset_names() == [photos.name]
    assert list_imports(empty) == {}


def test_import_form_imports_points_with_vectors(empty: Workspace, tmp_path: Path):
    (tmp_path / "points.csv").write_text("path\n" + "\n".join(f"gone/{number}.jpg" for number in range(12)))
    np.save(tmp_path / "v.npy", np.eye(12, 5, dtype=np.float32))
    test = page("start")
    test.text_input(key="import-path").set_value(str(tmp_path / "points.csv"))
    test.text_input(key="import-vectors").set_value(str(tmp_path / "v.npy")).run()
    test.button(key="import-folder").click().run()
    for task in list_imports(empty).values():
        task.wait(60)
        assert task.error is None
    dataset = empty.open_dataset("points")
    vectors = read_imported_vectors(dataset)
    assert (dataset.summarize().readable, vectors.count, vectors.dimensions) == (12, 12, 5)


def test_import_form_refuses_wrong_vectors_without_a_dataset(empty: Workspace, photos: Path, tmp_path: Path):
    empty.remove_dataset("photos")
    np.save(tmp_path / "v.npy", np.eye(2, 5, dtype=np.float32))
    test = page("start")
    test.text_input(key="import-path").set_value(str(photos))
    test.text_input(key="import-vectors").set_value(str(tmp_path / "v.npy")).run()
    test.button(key="import-folder").click().run()
    for task in list_imports(empty).values():
        task.wait(60)
    assert "2 vectors" in alerts(test.run())
    assert empty.list_dataset_names() == []


def test_start_page_shows_why_an_import_failed(empty: Workspace):
    key = start_import(empty, str(empty.root.parent / "nowhere"))
    list_imports(empty)[key].wait()
    test = page("start")
    assert "nowhere does not exist" in alerts(test)
    test.button(key=f"dismiss-{key}").click().run()
    assert "nowhere" not in texts(test)


def test_import_notice_is_shown_only_in_the_session_that_started_the_import(empty: Workspace, photos: Path):
    key = start_import(empty, str(photos))
    list_imports(empty)[key].wait()
    test = page("start")
    assert not test.success
    save_images(photos.with_name("more"), 2)
    start_import(empty, str(photos.with_name("more")))
    assert key not in list_imports(empty)  # the next import dismisses it


def test_import_in_progress_has_no_dataset_card(empty: Workspace, monkeypatch: pytest.MonkeyPatch):
    save_images(empty.root.parent / "photos", 3)
    is_running, may_finish = threading.Event(), threading.Event()
    decode = Importer._decode

    def decode_when_allowed(importer: Importer, *arguments: Any) -> None:
        is_running.set()
        assert may_finish.wait(60)
        decode(importer, *arguments)

    monkeypatch.setattr(Importer, "_decode", decode_when_allowed)
    key = start_import(empty, str(empty.root.parent / "photos"))
    assert is_running.wait(60)
    try:
        test = page("start")
        assert not test.exception
        assert empty.list_dataset_names() == ["photos"]
        keys = {button.key for button in test.main.button}
        assert keys == {"browse", "import-folder", "try-digits", f"cancel-{key}"}
        assert not test.info
        assert "Importing photos: 0%" in texts(test)  # in the sidebar of every page
    finally:
        may_finish.set()
        list_imports(empty)[key].wait()
    test.run()
    assert not test.exception
    assert test.button(key="explore-photos")
    assert test.button(key="remove-photos")


def test_import_of_very_many_files_asks_first(empty: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(import_form, "MAX_FILES_WITHOUT_QUESTION", 2)
    folder = empty.root.parent / "photos"
    save_images(folder, 3)
    test = page("start")
    test.text_input(key="import-path").set_value(f"'{folder}' ").run()
    assert "3 images in 1 folder" in texts(test)
    test.button(key="import-folder").click().run()
    assert "3 files" in texts(test)
    assert list_imports(empty) == {}
    test.button(key="import-cancel").click().run()
    assert "import-confirm" not in {one.key for one in test.main.button}
    test.button(key="import-folder").click().run()
    test.button(key="import-confirm").click().run()
    assert not test.exception
    for task in list_imports(empty).values():
        task.wait()
    assert empty.open_dataset("photos").summarize().readable == 3


def test_cancelled_import_leaves_nothing_on_the_page(empty: Workspace, monkeypatch: pytest.MonkeyPatch):
    save_images(empty.root.parent / "photos", 3)
    is_running, may_continue = threading.Event(), threading.Event()
    decode = Importer._decode

    def decode_when_allowed(importer: Importer, *arguments: Any) -> None:
        is_running.set()
        assert may_continue.wait(60)
        importer.report(Progress("Decoding", 0, 3, 0.0))
        decode(importer, *arguments)

    monkeypatch.setattr(Importer, "_decode", decode_when_allowed)
    key = start_import(empty, str(empty.root.parent / "photos"))
    assert is_running.wait(60)
    task = list_imports(empty)[key]
    page("start").button(key=f"cancel-{key}").click().run()
    may_continue.set()
    task.wait()
    test = page("start")
    assert not test.exception
    assert alerts(test) == ""
    assert (empty.list_dataset_names(), list_imports(empty)) == ([], {})
