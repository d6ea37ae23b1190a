"""From the boxes of the Train page to `crlc train`."""

from __future__ import annotations

from dataclasses import fields

from app.field_help import field_help
from app.training_form import TrainForm, known_settings, problem_with, read_assignments
from crlc.cli.main import build_parser
from crlc.config import ImportOptions
from crlc.training.presets import FROZEN_HEADS
from crlc.training.settings import TrainSettings


def test_every_setting_has_its_one_line_of_help():
    for settings in (TrainSettings, ImportOptions):
        assert list(field_help(settings)) == [field.name for field in fields(settings)]
        assert all(text and "\n" not in text for text in field_help(settings).values())
    assert field_help(TrainSettings)["clusters"] == "Number of clusters C, at least 2."
    assert known_settings()["critic"].choices[0] == "log-dot"
    assert known_settings()["learning_rate"].label == "Learning rate"


def test_the_arguments_are_understood():
    changes = {"epochs": 3, "critic": "dot", "temperature": 0.2, "frozen": True}
    form = TrainForm("digits", 7, "best", "two-stage", "cpu", changes)
    options = build_parser().parse_args(["train", *form.arguments()])
    assert (options.dataset, options.clusters, options.preset) == ("digits", "7", "best")
    assert (options.method, options.device, options.epochs, options.critic) == ("two-stage", "cpu", 3, "dot")
    assert options.set == ["temperature=0.2", "frozen=true"]
    assert TrainForm("digits").arguments() == ["digits", "--preset", "quick"]
    assert TrainForm("my set", changes={"seed": 1}).command() == "crlc train 'my set' --preset quick --seed 1"


def test_what_is_set_otherwise_than_the_preset():
    assert TrainForm("digits", 7, "best").deviations(("quick", "best")) == []
    form = TrainForm("digits", None, "paper-cifar10", "two-stage", "cpu", {"batch_size": 64})
    wanted = ["preset paper-cifar10", "method two-stage", "compute on cpu", "batch size 64"]
    assert form.deviations(("quick", "best")) == wanted


def test_settings_written_as_text():
    assert read_assignments(" seed = 3 \n\nclip_norm=5, seed=4") == {"seed": "4", "clip_norm": "5"}
    assert read_assignments("nonsense") == {"nonsense": ""}


def test_what_is_wrong_is_said_before_it_is_started():
    assert problem_with({"epochs": 3, "frozen": False}, None) == ""
    assert problem_with({"epochs": 0}, None) == "epochs=0 is not allowed: it must be from 1 to 1,000,000."
    assert "'nonsense=' is not a setting" in problem_with({"nonsense": ""}, None)
    # What fits the defaults may not fit what the preset means for these images.
    assert problem_with({"implementation": "memory-bank"}, None) == ""
    assert "only for pairs of views" in problem_with({"implementation": "memory-bank"}, FROZEN_HEADS)
