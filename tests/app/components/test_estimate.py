"""Time estimates on the Train page."""

from __future__ import annotations

import shutil

import pytest

from app.background.commands import CommandResult, get_command_runner
from app.components.training.estimate import (
    build_count_command,
    build_estimate_command,
    describe_other_presets,
    read_planned_settings,
)
from app.view_models.training_form import TrainForm
from crlc.formatting import format_duration_range
from crlc.jobs.shared_queue import get_queue
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.fixtures.app_pages import page, texts


def test_estimate_command_is_the_same_for_the_main_presets(trained: Workspace):
    dataset = trained.open_dataset("digits")
    command = build_estimate_command(trained, dataset, TrainForm("digits", 5, "best"))
    assert command.arguments == ("train", "digits", "--clusters", "5", "--preset", "quick", "--dry-run")
    assert command == build_estimate_command(trained, dataset, TrainForm("digits", 5, "balanced"))
    paper = build_estimate_command(trained, dataset, TrainForm("digits", preset="paper-cifar10"))
    assert "paper-cifar10" in paper.arguments


def test_finished_run_outdates_the_estimate(trained: Workspace):
    dataset, form = trained.open_dataset("digits"), TrainForm("digits", 5)
    before, count = build_estimate_command(trained, dataset, form), build_count_command(trained, dataset)
    assert build_estimate_command(trained, dataset, form) == before
    run = RunFolder(shutil.copytree(RunStore(trained).open("last").path, trained.root / "runs" / "third"))
    run.write_status(RunState.STOPPED)
    assert build_estimate_command(trained, dataset, form) == before
    run.write_status(RunState.FINISHED)
    assert build_estimate_command(trained, dataset, form) != before
    assert build_count_command(trained, dataset) == count  # the suggested number does not depend on runs


def test_equal_presets_are_reported_as_equal():
    short, long = {"low": 40, "high": 100, "settings": 1}, {"low": 130, "high": 400, "settings": 2}
    estimates = {"quick": short, "balanced": long, "best": long}
    times = format_duration_range(130, 400)
    assert describe_other_presets(estimates, "quick") == f"balanced {times}, best: same as balanced here"
    assert describe_other_presets(estimates, "best").endswith("balanced: same as best here")
    assert describe_other_presets({"paper-cifar10": short}, "paper-cifar10") == ""


@pytest.mark.slow
def test_train_page_shows_the_estimate_and_the_settings_of_the_preset(trained: Workspace):
    command = build_estimate_command(trained, trained.open_dataset("digits"), TrainForm("digits", 10))
    result = get_command_runner().wait(command, 60)
    presets = result.content["presets"]
    for preset in ("quick", "best"):
        assert read_planned_settings(result, preset) == TrainSettings.from_json(presets[preset]["settings"])
    assert read_planned_settings(None, "quick") is None
    test = page("train")
    assert format_duration_range(presets["balanced"]["low"], presets["balanced"]["high"]) in texts(test)
    assert "of 200 images" in texts(test)
    assert test.number_input(key="train-set-batch_size").placeholder == "128"


def test_estimate_does_not_start_while_a_job_is_queued(trained: Workspace):
    get_queue(trained).close()  # so that the job stays queued
    get_queue(trained).submit(["digits"])
    test = page("train")
    assert not test.exception
    command = build_estimate_command(trained, trained.open_dataset("digits"), TrainForm("digits", 10))
    assert get_command_runner().get_result(command) is None
    assert read_planned_settings(CommandResult(), "quick") is None
