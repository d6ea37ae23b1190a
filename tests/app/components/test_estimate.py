"""Time estimates on the Train page."""

from __future__ import annotations

import pytest

from app.background.commands import CommandResult, get_command_runner
from app.components.training.estimate import build_estimate_command, read_planned_settings
from app.view_models.training_form import TrainForm
from crlc.formatting import format_duration_range
from crlc.jobs.shared_queue import get_queue
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace
from tests.fixtures.app_pages import page, texts


def test_estimate_command_is_the_same_for_the_main_presets(trained: Workspace):
    dataset = trained.open_dataset("digits")
    command = build_estimate_command(trained, dataset, TrainForm("digits", 5, "best"))
    assert command.arguments == ("train", "digits", "--clusters", "5", "--preset", "quick", "--dry-run")
    assert command == build_estimate_command(trained, dataset, TrainForm("digits", 5, "balanced"))
    paper = build_estimate_command(trained, dataset, TrainForm("digits", preset="paper-cifar10"))
    assert "paper-cifar10" in paper.arguments


@pytest.mark.slow
def test_train_page_shows_the_estimate_and_the_settings_of_the_preset(trained: Workspace):
    command = build_estimate_command(trained, trained.open_dataset("digits"), TrainForm("digits", 10))
    result = get_command_runner().wait(command, 60)
    presets = result.content["presets"]
    for preset in ("quick", "best"):
        assert read_planned_settings(result, preset) == TrainSettings.from_json(presets[preset]["settings"])
    assert read_planned_settings(None, "quick") is None
    test = page("train")
    for times in presets.values():
        assert format_duration_range(times["low"], times["high"]) in texts(test)
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
