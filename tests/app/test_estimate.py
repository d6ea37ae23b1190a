"""What is measured for the Train page."""

from __future__ import annotations

from app.components.estimate import estimate_question, planned, preset_questions
from app.measuring import Answer, measuring
from app.training_form import TrainForm
from crlc.jobs.shared import queue_of
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace
from tests.app.pages import page, texts


def test_the_chosen_preset_is_measured_first(trained: Workspace):
    dataset = trained.dataset("digits")
    asked = preset_questions(trained, dataset, TrainForm("digits", 5, "best"))
    assert list(asked) == ["best", "quick", "balanced"]
    assert asked["best"].arguments == ("train", "digits", "--clusters", "5", "--preset", "best", "--dry-run")
    assert list(preset_questions(trained, dataset, TrainForm("digits", preset="paper-cifar10"))) == ["paper-cifar10"]


def test_a_measured_time_is_shown_with_the_preset_s_settings(trained: Workspace):
    question = estimate_question(trained, trained.dataset("digits"), TrainForm("digits", 10))
    answer = measuring().wait(question, 60)
    assert planned(answer) == TrainSettings.from_json(answer.content["settings"])
    assert planned(None) is None
    test = page("train")
    assert "on this computer" in texts(test)
    assert "of 200 images. Method: end to end with a small network" in texts(test)
    assert test.number_input(key="train-set-batch_size").placeholder == "128"


def test_nothing_is_measured_while_something_trains(trained: Workspace):

    queue_of(trained).close()
    queue_of(trained).train(["digits"])
    test = page("train")
    assert "measured when nothing is being trained" in texts(test)
    question = estimate_question(trained, trained.dataset("digits"), TrainForm("digits", 10))
    assert measuring().known(question) is None
    assert planned(Answer()) is None
