"""The Start page, without a browser."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import streamlit as st

from app.components.dataset_card import facts_of
from app.components.first_map import first_map_question
from app.importing import begin_import, imports_of
from app.measuring import measuring
from app.views.start import recent_datasets
from crlc.data.manifest import Manifest
from crlc.files import writer_lock
from crlc.jobs.shared import queue_of
from crlc.workspace import Workspace
from crlc.workspace.sample import SAMPLE_RUN, place_sample_once
from tests.app.pages import page, run_ids, texts
from tests.app.tiny_run import tiny_dataset, tiny_run
from tests.pictures import save_pictures


@pytest.fixture
def photos(empty: Workspace) -> Path:
    """A folder of three pictures, two of them the same, and a file that is none; imported."""
    place = empty.root.parent / "photos"
    save_pictures(place, 2)
    shutil.copy(place / "00000.png", place / "copy.png")
    (place / "broken.png").write_bytes(b"")
    empty.import_dataset(str(place))
    return place


def age(workspace: Workspace, name: str, seconds: int) -> None:
    file = workspace.root / "datasets" / name / "dataset.json"
    os.utime(file, (file.stat().st_mtime - seconds,) * 2)


@pytest.mark.usefixtures("empty")
def test_an_empty_workspace_says_what_to_do():
    test = page("start")
    assert not test.exception
    assert "Enter the path of a folder above, or try the digits" in test.info[0].value


def test_the_example_is_presented_as_one(empty: Workspace):
    place_sample_once(empty)
    test = page("start")
    assert not test.exception
    assert "Example: 1,797 handwritten digits, already clustered. Look at it in Explore." in texts(test)
    assert test.query_params == {"dataset": "digits", "run": SAMPLE_RUN}


@pytest.mark.usefixtures("photos")
def test_what_a_scan_found_is_shown(empty: Workspace):
    summary = empty.dataset("photos").summary()
    assert facts_of(summary) == "3 images · 32 px · 1 unreadable · 1 exact copy"
    test = page("start")
    assert facts_of(summary) in texts(test)
    assert [one.label for one in test.expander] == [
        "More options",
        "1 file could not be read",
        "1 image is an exact copy of another",
    ]
    assert "1 x the file is empty" in texts(test)
    assert "/problems/photos" in texts(test)
    assert "/duplicates/photos" in texts(test)


@pytest.mark.usefixtures("photos")
def test_the_time_to_the_first_map_is_measured(empty: Workspace):
    test = page("start")
    assert "Measuring how long the first map takes here" in texts(test)
    answer = measuring().wait(first_map_question(empty, empty.dataset("photos")), 90)
    assert answer.content is not None, answer.text
    assert answer.content["seconds"] == pytest.approx(
        sum(answer.content[part] for part in ("decoding", "features", "clusters", "map"))
    )
    assert answer.content["features"] > 0
    assert "First map in about **" in texts(test.run())


def test_nothing_is_measured_while_something_trains(trained: Workspace):
    save_pictures(trained.root.parent / "new", 2)
    trained.import_dataset(str(trained.root.parent / "new"))
    queue_of(trained).close()  # so that it only waits
    queue_of(trained).train(["digits"])
    test = page("start")
    assert "is measured when nothing is being trained" in texts(test)
    assert measuring().known(first_map_question(trained, trained.dataset("new"))) is None


def test_the_newest_is_first(empty: Workspace):
    for number, name in enumerate(("b", "c", "a")):
        save_pictures(empty.root.parent / name, 2, first_seed=10 * number)
        empty.import_dataset(str(empty.root.parent / name))
        age(empty, name, seconds=100 * (3 - number))
    assert recent_datasets(empty) == ["a", "c", "b"]
    empty.import_dataset(str(empty.root.parent / "b"))
    assert recent_datasets(empty) == ["b", "a", "c"]


def test_options_of_an_import(empty: Workspace):
    place = empty.root.parent / "sorted"
    for number, name in enumerate(("cats", "dogs")):
        save_pictures(place / name, 3, first_seed=10 * number)
    test = page("start")
    test.text_input[0].set_value(str(place))
    test.number_input(key="import-size").set_value(16)
    test.number_input(key="import-limit").set_value(4)
    test.selectbox(key="import-classes").select("none")
    next(one for one in test.button if one.label == "Import").click().run()
    assert not test.exception
    for work in imports_of(empty).values():
        work.wait()
    summary = empty.dataset("sorted").summary()
    assert (summary.readable, summary.sizes, summary.classes) == (4, (16,), {})


def test_try_the_digits_asks_for_a_training(empty: Workspace):
    queue_of(empty).close()  # so that it only waits
    test = page("start")
    next(one for one in test.button if one.label == "Try the digits").click().run()
    assert not test.exception
    (job,) = queue_of(empty).jobs()
    assert (job.arguments, job.title) == (("train", "digits", "--preset", "quick"), "digits")
    version = empty.dataset("digits").version
    next(one for one in test.button if one.label == "Try the digits").click().run()
    assert len(queue_of(empty).jobs()) == 2
    assert empty.dataset("digits").version == version  # not imported again: what was computed stays of use


def test_removing_asks_and_takes_the_runs_along(trained: Workspace):
    tiny_run(trained, tiny_dataset(trained, trained.root.parent / "set"))
    test = page("start")
    assert "Its 2 runs go with it." in texts(test)
    assert "Its 1 run goes with it." in texts(test)
    test.button(key="remove-digits").click().run()
    assert not test.exception
    assert (trained.dataset_names(), run_ids(trained)) == (["set"], ["tiny-run"])
    shutil.rmtree(trained.root.parent / "set")  # the originals are gone
    (trained.root / "datasets" / "set" / "dataset.json").write_text("{")
    test = page("start")
    assert "cannot be read" in texts(test)
    test.button(key="remove-set").click().run()
    assert (trained.dataset_names(), run_ids(trained)) == ([], [])
    assert "No images here yet" in page("start").info[0].value


def test_a_data_set_that_is_being_written_is_not_removed(trained: Workspace):
    with writer_lock(trained.root / "locks" / "dataset-digits.lock", "The data set"):
        test = page("start")
        test.button(key="remove-digits").click().run()
    assert not test.exception
    assert "being written by another process" in texts(test)
    assert trained.dataset_names() == ["digits"]


def test_originals_that_moved_can_be_linked_again(empty: Workspace, photos: Path):
    elsewhere = photos.with_name("elsewhere")
    photos.rename(elsewhere)
    st.cache_data.clear()  # as after some seconds
    test = page("start")
    assert f"{photos} does not exist" in texts(test)
    place = next(one for one in test.text_input if one.label == "Where the originals are now")
    place.set_value(str(elsewhere))
    next(one for one in test.button if one.label == "Re-link").click().run()
    assert not test.exception
    assert "does not exist" not in texts(test)
    assert empty.dataset("photos").info.location == str(elsewhere)


def test_an_interrupted_import_is_carried_on(empty: Workspace, photos: Path):
    with Manifest(empty.dataset("photos").folder) as manifest, manifest.transaction():
        manifest.set_complete(complete=False)
    test = page("start")
    assert "Its import was interrupted" in texts(test)
    assert test.button(key="train-photos").disabled
    test.button(key="carry-on-photos").click().run()
    for found in imports_of(empty).values():
        found.wait()
    test.run()
    assert not test.exception
    assert "photos: 3 images in" in test.success[0].value
    assert "import was interrupted" not in texts(test)
    assert empty.dataset_names() == [photos.name]
    assert imports_of(empty) == {}


def test_an_import_that_fails_says_why(empty: Workspace):
    key = begin_import(empty, str(empty.root.parent / "nowhere"))
    imports_of(empty)[key].wait()
    test = page("start")
    assert "nowhere does not exist" in texts(test)
    next(one for one in test.button if one.label == "Dismiss").click().run()
    assert "nowhere" not in texts(test)


def test_the_outcome_is_told_where_the_import_was_begun_only(empty: Workspace, photos: Path):
    key = begin_import(empty, str(photos))
    imports_of(empty)[key].wait()
    test = page("start")
    assert not test.success
    save_pictures(photos.with_name("more"), 2)
    begin_import(empty, str(photos.with_name("more")))
    assert key not in imports_of(empty)  # and is forgotten some time
