"""The Train page, without a browser."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import huggingface_hub.constants
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.navigation import PAGES
from app.view_models.job_titles import describe_job
from crlc.jobs.job import JobState, create_job
from crlc.jobs.job_file import JobFile
from crlc.jobs.shared_queue import get_queue
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.fixtures.app_pages import alerts, link_labels, page, run_ids, texts
from tests.fixtures.images import save_images

TWO_PAGES = """
import streamlit as st
from app.components.common.sidebar import show_sidebar
from app.navigation import show_navigation
from app.pages import runs, train

show_navigation()
show_sidebar()
(runs if st.session_state.get("page") == "runs" else train).render()
"""


@pytest.mark.usefixtures("empty")
def test_train_page_shows_the_next_step_without_datasets():
    test = page("train")
    assert not test.exception
    assert "No datasets yet" in texts(test)
    assert link_labels(test) == ["Go to Start"]
    assert not test.main.button


@pytest.mark.usefixtures("empty")
def test_pages_render_in_an_empty_workspace():
    for entry in PAGES:
        assert not page(entry.name).exception


def test_train_page_shows_a_finished_run(trained: Workspace):
    test = page("train")
    assert not test.exception
    newest = run_ids(trained)[-1]
    assert test.query_params == {"dataset": "digits", "run": newest}
    assert [one.value for one in test.header] == ["Finished"]
    assert test.metric[0].value.endswith("of 10")
    assert len(test.get("plotly_chart")) == 4
    first = run_ids(trained)[0]
    assert page("train", run=first).query_params["run"] == first


@pytest.mark.usefixtures("trained")
def test_untrained_preview_stays_selected():
    test = page("train")
    test.sidebar.selectbox[1].select("").run()
    assert test.query_params["run"] == "none"
    assert "No run selected" in texts(test)
    assert page("train", dataset="digits", run="none").sidebar.selectbox[1].value == ""


def test_train_page_submits_a_job_and_cancels_it(trained: Workspace):
    get_queue(trained).close()  # so that the job stays queued
    test = page("train")
    test.number_input(key="train-clusters-digits").set_value(5)
    test.number_input(key="train-set-epochs").set_value(1)
    test.selectbox(key="train-set-critic").select("dot")
    test.text_area(key="train-others").set_value("clip_norm=5")
    test.run()
    test.button(key="start-training").click().run()
    assert not test.exception
    (job,) = get_queue(trained).read_jobs()
    expected = "train digits --clusters 5 --preset quick --epochs 1 --critic dot --set clip_norm=5"
    assert (" ".join(job.arguments), job.title, job.state) == (expected, "digits", "waiting")
    assert test.header[0].value == "Queued"
    test.sidebar.selectbox[1].select(run_ids(trained)[0]).run()  # selecting a run shows it instead of the job
    assert test.header[0].value == "Finished"
    test.button(key=f"show-{job.id}").click().run()
    assert test.header[0].value == "Queued"
    test.button(key="live-cancel").click().run()
    assert get_queue(trained).read_jobs()[0].state == "cancelled"


@pytest.mark.usefixtures("trained")
def test_train_page_keeps_its_settings_while_another_page_is_open():
    test = AppTest.from_string(TWO_PAGES, default_timeout=60).run()
    test.number_input(key="train-clusters-digits").set_value(5)
    test.segmented_control(key="train-preset").select("best")
    test.number_input(key="train-set-epochs").set_value(3)
    test.selectbox(key="train-set-critic").select("dot")
    test.text_area(key="train-others").set_value("clip_norm=5").run()
    command = "crlc train digits --clusters 5 --preset best --epochs 3 --critic dot --set clip_norm=5"
    assert test.code[0].value == command
    test.session_state["page"] = "runs"
    assert len(test.run().dataframe) == 1  # the table of the Runs page
    test.session_state["page"] = "train"
    assert test.run().code[0].value == command
    assert "epochs 3 · critic dot · clip norm 5" in texts(test)
    test.button(key="reset-settings").click().run()
    assert not test.exception
    assert test.code[0].value == "crlc train digits --clusters 5 --preset best"
    assert "epochs 3" not in texts(test)


@pytest.mark.usefixtures("trained")
def test_train_page_shows_the_error_of_an_invalid_setting():
    test = page("train")
    test.number_input(key="train-set-subheads").set_value(0).run()
    assert "subheads=0" in alerts(test)
    assert test.button(key="start-training").disabled


@pytest.mark.usefixtures("trained")
def test_train_page_shows_beside_the_disabled_start_button_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    test = page("train")
    name = "timm/vit_small_patch14_dinov2.lvd142m"
    test.selectbox(key="train-set-backbone").select(name).run()
    keys = [one.key for one in test.button]
    start = keys.index("start-training")
    assert test.button[start].disabled
    assert keys[start - 1] == f"start-download-{name}"


def test_train_page_starts_the_shown_command(trained: Workspace):
    get_queue(trained).close()  # so that the job stays queued
    test = page("train")
    test.segmented_control(key="train-preset").select("best").run()
    command = test.code[0].value
    assert command == "crlc train digits --clusters 10 --preset best"
    test.button(key="start-training").click().run()
    (job,) = get_queue(trained).read_jobs()
    assert shlex.join(["crlc", *job.arguments]) == command


def test_second_training_leaves_the_first_on_the_page(trained: Workspace):
    get_queue(trained).close()  # so that the jobs stay queued
    test = page("train")
    for clusters in (5, 6):
        test.number_input(key="train-clusters-digits").set_value(clusters).run()
        test.button(key="start-training").click().run()
    first, second = get_queue(trained).read_jobs()
    shown = {one.key for one in test.main.button}
    assert f"show-{second.id}" in shown
    assert f"show-{first.id}" not in shown  # it is the one at the top
    (words,) = (one for one in texts(test).splitlines() if "6 clusters" in one)
    assert all(fact in words for fact in ("digits", "quick", "6 clusters", f"{datetime.now():%H:}"))
    test.button(key="live-cancel").click().run()
    assert [job.state for job in get_queue(trained).read_jobs()] == ["cancelled", "waiting"]


def test_finished_run_has_no_stop_button_while_its_process_ends(trained: Workspace):
    run = RunStore(trained).open("last")
    get_queue(trained).close()
    job = create_job(["train", "digits"], "digits", "app", run.id)
    with JobFile(trained.root).edit() as jobs:
        jobs.append(replace(job, state=JobState.RUNNING))
    test = page("train")
    assert test.header[0].value == "Finished"
    assert "live-stop" not in {one.key for one in test.main.button}


def test_train_page_explains_interrupted_and_failed_runs(trained: Workspace):
    run = RunStore(trained).open("last")
    get_queue(trained).close()
    status = json.loads((run.path / "status.json").read_text())
    (run.path / "status.json").write_text(json.dumps({**status, "state": "running", "pid": 2**22 + 1}))
    test = page("train")
    assert test.header[0].value == "Interrupted"
    assert "process is gone" in alerts(test)
    test.button(key="live-resume").click().run()
    assert [job.arguments for job in get_queue(trained).read_jobs()] == [("resume", run.id)]
    assert test.button(key="live-cancel")
    (run.path / "status.json").write_text(
        json.dumps({**status, "state": "failed", "message": "the loss is <b>nan</b>"})
    )
    assert "The loss is <b>nan</b>" in alerts(page("train"))


def test_train_page_shows_errors_of_damaged_files(trained: Workspace):
    run = RunStore(trained).open("last")
    (run.path / "status.json").write_text("{")
    test = page("train")
    assert not test.exception
    assert "status.json" in alerts(test)
    (trained.root / "datasets" / "digits" / "dataset.json").write_text("{")
    test = page("train")
    assert not test.exception
    assert "dataset.json" in alerts(test)


@pytest.mark.slow
def test_train_page_lists_a_job_that_failed_before_its_run(trained: Workspace):
    queue = get_queue(trained)
    job = queue.submit(["digits", "--clusters", "100000"], title="digits")
    assert queue.wait_until(lambda jobs: all(one.is_final for one in jobs), 60)
    test = page("train")
    assert not test.exception
    assert "there are only 200 images" in queue.get_job(job.id).error
    assert queue.get_job(job.id).error in alerts(test)
    test.button(key=f"forget-{job.id}").click().run()
    assert queue.read_jobs() == ()


def test_train_page_relinks_moved_originals(empty: Workspace):
    folder = empty.root.parent / "photos"
    save_images(folder, 3)
    empty.import_dataset(str(folder))
    assert not [one for one in page("train").text_input if one.key == "originals-photos"]
    for file in folder.iterdir():  # like an unplugged disk: the folder exists and is empty
        moved = empty.root.parent / "elsewhere" / file.name
        moved.parent.mkdir(exist_ok=True)
        shutil.move(file, moved)
    st.cache_data.clear()  # the check of the originals is cached for some seconds
    test = page("train")
    assert str(folder) in alerts(test)
    test.text_input(key="originals-photos").set_value(str(folder))
    test.button(key="relink-originals-photos").click().run()
    assert "0 of the 3 images" in alerts(test)
    test.text_input(key="originals-photos").set_value(str(empty.root.parent / "elsewhere"))
    test.button(key="relink-originals-photos").click().run()
    assert not test.exception
    assert alerts(test) == ""
    assert empty.open_dataset("photos").info.location == str(empty.root.parent / "elsewhere")


@pytest.mark.usefixtures("trained")
def test_train_page_offers_the_variants_and_weights_of_a_paper_preset():
    test = page("train")
    assert "train-weights" not in {one.key for one in test.text_input}
    paper = test.selectbox(key="train-paper")
    paper.select("paper-cifar20").run()
    test.selectbox(key="train-variant-paper-cifar20").select("memory-bank").run()
    assert test.code[0].value == "crlc train digits --clusters 10 --preset paper-cifar20 --variant memory-bank"
    assert "variant memory-bank" in texts(test)
    paper.select("paper-two-stage-cifar10").run()  # has no variants
    assert test.code[0].value == "crlc train digits --clusters 10 --preset paper-two-stage-cifar10"
    paper.select("paper-imagenet50").run()
    test.text_input(key="train-weights").set_value(' "/home/me/moco.pth" ').run()
    test.selectbox(key="train-variant-paper-imagenet50").select("stored-features").run()
    expected = "--preset paper-imagenet50 --variant stored-features --weights /home/me/moco.pth"
    assert test.code[0].value == f"crlc train digits --clusters 10 {expected}"
    test.button(key="reset-settings").click().run()
    assert not test.exception
    assert test.code[0].value == "crlc train digits --clusters 10 --preset quick"
    paper.select("paper-cifar20").run()
    assert test.selectbox(key="train-variant-paper-cifar20").value is None


def test_train_page_queues_a_sweep_as_one_group(trained: Workspace):
    get_queue(trained).close()  # so that the jobs stay queued
    test = page("train")
    test.selectbox(key="train-sweep").set_value("feature_weight").run()
    assert test.button(key="start-training").disabled  # no values yet
    test.text_input(key="train-sweep-values").set_value("1, x").run()
    assert "feature_weight" in alerts(test)
    test.text_input(key="train-sweep-values").set_value("0.5, 1, 2").run()
    assert "3 runs" in test.button(key="start-training").label
    test.button(key="start-training").click().run()
    assert not test.exception
    jobs = [job.arguments for job in get_queue(trained).read_jobs()]
    weights = [one[one.index("--set") + 1] for one in jobs]
    assert weights == ["feature_weight=0.5", "feature_weight=1", "feature_weight=2"]
    assert len({one[one.index("--group") + 1] for one in jobs}) == 1
    described = [describe_job(job, {}) for job in get_queue(trained).read_jobs()]
    assert [text.split(" · ")[:2] for text in described] == [
        ["digits", f"feature weight {value}"] for value in ("0.5", "1", "2")
    ]
