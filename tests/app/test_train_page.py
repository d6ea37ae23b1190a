"""The Train page, without a browser."""

from __future__ import annotations

import json
import shutil

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.pages import PAGES
from crlc.jobs.shared import queue_of
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs
from tests.app.pages import page, run_ids, texts
from tests.pictures import save_pictures

TWO_PAGES = """
import streamlit as st
from app.components.sidebar import show_sidebar
from app.pages import navigation
from app.views import runs, train

navigation()
show_sidebar()
(runs if st.session_state.get("page") == "runs" else train).render()
"""


@pytest.mark.usefixtures("empty")
def test_an_empty_workspace_says_what_to_do():
    test = page("train")
    assert not test.exception
    assert "Bring some in on the Start page" in test.info[0].value
    assert not test.main.button


@pytest.mark.usefixtures("empty")
def test_every_page_that_is_listed_can_be_shown():
    for entry in PAGES:
        assert not page(entry.name).exception


def test_a_finished_run_is_shown(trained: Workspace):
    test = page("train")
    assert not test.exception
    newest = run_ids(trained)[-1]
    assert test.query_params == {"dataset": "digits", "run": newest}
    assert [one.value for one in test.subheader] == ["Finished"]
    assert {one.label: one.value for one in test.metric}["Clusters found"].endswith("of 10")
    assert "There are only" not in texts(test)
    assert len(test.get("plotly_chart")) == 4
    first = run_ids(trained)[0]
    assert page("train", run=first).query_params["run"] == first


@pytest.mark.usefixtures("trained")
def test_choosing_before_training_is_kept():
    test = page("train")
    test.sidebar.selectbox[1].select("").run()
    assert test.query_params["run"] == "none"
    assert "No run is chosen" in test.info[0].value
    assert page("train", dataset="digits", run="none").sidebar.selectbox[1].value == ""


def test_starting_puts_a_job_into_the_queue(trained: Workspace):
    queue_of(trained).close()  # so that it only waits
    test = page("train")
    test.number_input(key="train-clusters-digits").set_value(5)
    test.number_input(key="train-set-epochs").set_value(1)
    test.selectbox(key="train-set-critic").select("dot")
    test.text_area(key="train-others").set_value("clip_norm=5")
    test.run()
    test.button(key="start-training").click().run()
    assert not test.exception
    (job,) = queue_of(trained).jobs()
    wanted = "train digits --clusters 5 --preset quick --epochs 1 --critic dot --set clip_norm=5"
    assert (" ".join(job.arguments), job.title, job.state) == (wanted, "digits", "waiting")
    assert test.subheader[0].value == "Waiting for the one before it"
    assert test.button(key="start-training").label == "Add to the queue"
    test.sidebar.selectbox[1].select(run_ids(trained)[0]).run()  # whoever chooses a run sees that one
    assert test.subheader[0].value == "Finished"
    test.button(key=f"show-{job.id}").click().run()
    assert test.subheader[0].value == "Waiting for the one before it"
    test.button(key="live-Cancel").click().run()
    assert queue_of(trained).jobs()[0].state == "cancelled"


@pytest.mark.usefixtures("trained")
def test_the_boxes_keep_their_content_while_another_page_is_looked_at():
    test = AppTest.from_string(TWO_PAGES, default_timeout=60).run()
    test.number_input(key="train-clusters-digits").set_value(5)
    test.segmented_control(key="train-preset").select("best")
    test.number_input(key="train-set-epochs").set_value(3)
    test.selectbox(key="train-set-critic").select("dot")
    test.text_area(key="train-others").set_value("clip_norm=5").run()
    command = "crlc train digits --clusters 5 --preset best --epochs 3 --critic dot --set clip_norm=5"
    assert test.code[0].value == command
    test.session_state["page"] = "runs"
    assert len(test.run().dataframe) == 1  # that of the runs
    test.session_state["page"] = "train"
    assert test.run().code[0].value == command
    assert "Set otherwise than the preset: epochs 3 · critic dot · clip norm 5" in texts(test)
    test.button(key="reset-settings").click().run()
    assert not test.exception
    assert test.code[0].value == "crlc train digits --clusters 5 --preset best"
    assert "Set otherwise" not in texts(test)


@pytest.mark.usefixtures("trained")
def test_a_setting_that_is_not_allowed_is_said_at_once():
    test = page("train")
    test.number_input(key="train-set-subheads").set_value(0).run()
    assert "subheads=0 is not allowed" in texts(test)
    assert test.button(key="start-training").disabled


@pytest.mark.usefixtures("trained")
def test_the_shown_command_is_the_one_that_is_started():
    test = page("train")
    test.segmented_control(key="train-preset").select("best").run()
    assert test.code[0].value == "crlc train digits --clusters 10 --preset best"


def test_interrupted_and_failed_runs_are_explained(trained: Workspace):
    run = Runs(trained).open("last")
    queue_of(trained).close()
    status = json.loads((run.path / "status.json").read_text())
    (run.path / "status.json").write_text(json.dumps({**status, "state": "running", "pid": 2**22 + 1}))
    test = page("train")
    assert test.subheader[0].value == "Interrupted"
    assert "Interrupted: its process is gone. It can be resumed." in texts(test)
    test.button(key="live-Resume").click().run()
    assert [job.arguments for job in queue_of(trained).jobs()] == [("resume", run.id)]
    assert test.button(key="live-Cancel")
    (run.path / "status.json").write_text(
        json.dumps({**status, "state": "failed", "message": "the loss is <b>nan</b>"})
    )
    assert "The loss is <b>nan</b>" in texts(page("train"))


def test_damage_is_said_in_place(trained: Workspace):
    run = Runs(trained).open("last")
    (run.path / "status.json").write_text("{")
    test = page("train")
    assert not test.exception
    assert "status.json" in texts(test)
    (trained.root / "datasets" / "digits" / "dataset.json").write_text("{")
    test = page("train")
    assert not test.exception
    assert "cannot be read" in texts(test)


def test_a_job_that_never_became_a_run_is_on_the_list(trained: Workspace):
    queue = queue_of(trained)
    job = queue.train(["digits", "--clusters", "100000"], title="digits")
    assert queue.wait_for(lambda jobs: all(one.has_ended for one in jobs), 60)
    test = page("train")
    assert not test.exception
    assert queue.job(job.id).error in texts(test)
    test.button(key=f"forget-{job.id}").click().run()
    assert queue.jobs() == ()


def test_originals_that_moved_can_be_linked_again(empty: Workspace):
    place = empty.root.parent / "photos"
    save_pictures(place, 3)
    empty.import_dataset(str(place))
    assert "relink" not in texts(page("train"))
    for file in place.iterdir():  # as an unplugged disk: its folder is there, and empty
        moved = empty.root.parent / "elsewhere" / file.name
        moved.parent.mkdir(exist_ok=True)
        shutil.move(file, moved)
    st.cache_data.clear()  # as after some seconds
    test = page("train")
    assert "None of the images looked at are in" in texts(test)
    test.text_input[0].set_value(str(place))
    test.button[0].click().run()
    assert "Only 0 of the 3 images" in texts(test)
    test.text_input[0].set_value(str(empty.root.parent / "elsewhere"))
    test.button[0].click().run()
    assert not test.exception
    assert "None of the images" not in texts(test)
    assert empty.dataset("photos").info.location == str(empty.root.parent / "elsewhere")
