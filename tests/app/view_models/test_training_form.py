"""The training form as arguments of `crlc train`."""

from __future__ import annotations

from datetime import datetime

import pytest

from app.view_models.training_form import (
    TrainForm,
    build_sweep,
    list_setting_fields,
    parse_assignments,
    validate_changes,
)
from crlc.cli.main import build_parser
from crlc.cli.train import SETTINGS_WITH_OPTION
from crlc.errors import UsageError
from crlc.runs.run_title import normalize_title
from crlc.training.presets import FROZEN_HEADS
from crlc.training.settings import SETTING_NAMES, TrainSettings


def test_setting_fields_have_one_line_of_help():
    assert tuple(list_setting_fields()) == SETTING_NAMES
    assert all(setting.help and "\n" not in setting.help for setting in list_setting_fields().values())
    assert list_setting_fields()["critic"].choices[0] == "log-dot"
    assert "resnet18" in list_setting_fields()["backbone"].choices
    assert list_setting_fields()["learning_rate"].group == "optimization"
    assert list_setting_fields()["learning_rate"].label == "Learning rate"
    assert list_setting_fields()["feature_weight"].label == "Feature weight λ2"  # as in the paper: found by typing λ2


def test_train_form_arguments_are_parsed_by_the_cli():
    changes = {"epochs": 3, "critic": "dot", "temperature": 0.2, "frozen": True}
    form = TrainForm("digits", 7, "best", "two-stage", "cpu", changes)
    options = build_parser().parse_args(["train", *form.to_arguments()])
    assert (options.dataset, options.clusters, options.preset) == ("digits", "7", "best")
    assert (options.method, options.device, options.epochs, options.critic) == ("two-stage", "cpu", 3, "dot")
    assert options.set == ["temperature=0.2", "frozen=true"]
    assert TrainForm("digits").to_arguments() == ["digits", "--preset", "quick"]
    assert TrainForm("my set", changes={"seed": 1}).to_command() == "crlc train 'my set' --preset quick --seed 1"


def test_train_form_uses_options_that_exist():
    values = {"backbone": "small", "implementation": "simclr", "critic": "dot", "augment": "photo", "epochs": 3}
    values |= {"seed": 1, "neighbours": 5, "engine": "torch"}
    assert sorted(values) == sorted(SETTINGS_WITH_OPTION)
    options = build_parser().parse_args(["train", *TrainForm("digits", changes=values).to_arguments()])
    assert {name: getattr(options, name) for name in values} == values
    assert options.set == []


def test_describe_changes_lists_differences_from_the_preset():
    assert TrainForm("digits", 7, "best").describe_changes(("quick", "best")) == []
    form = TrainForm("digits", None, "paper-cifar10", "two-stage", "cpu", {"batch_size": 64})
    expected = ["preset paper-cifar10", "method two-stage", "device cpu", "batch size 64"]
    assert form.describe_changes(("quick", "best")) == expected


def test_train_form_adds_what_presets_of_the_paper_need():
    bank = TrainForm("digits", preset="paper-cifar20", variant="memory-bank")
    assert bank.to_arguments() == ["digits", "--preset", "paper-cifar20", "--variant", "memory-bank"]
    assert bank.describe_changes(("quick",)) == ["preset paper-cifar20", "variant memory-bank"]
    frozen = TrainForm("photos", preset="paper-imagenet50", weights="/home/me/moco.pth")
    options = build_parser().parse_args(["train", *frozen.to_arguments()])
    assert (options.weights, options.labels) == ("/home/me/moco.pth", None)
    semi = TrainForm("digits", preset="paper-semi-cifar10")
    assert build_parser().parse_args(["train", *semi.to_arguments()]).labels == "workspace"


def test_parse_assignments_reads_names_and_values():
    assert parse_assignments(" seed = 3 \n\nclip_norm=5, seed=4") == {"seed": "4", "clip_norm": "5"}
    assert parse_assignments("nonsense") == {"nonsense": ""}


def test_validate_changes_returns_the_error_of_a_setting():
    assert validate_changes({"epochs": 3, "frozen": False}, None) == ""
    assert validate_changes({"epochs": 0}, None) == "epochs=0 is not allowed: it must be from 1 to 1,000,000."
    assert "'nonsense' is not a setting" in validate_changes({"nonsense": ""}, None)
    # A change that fits the default settings may not fit the settings of a preset.
    assert validate_changes({"implementation": "memory-bank"}, None) == ""
    assert "memory-bank" in validate_changes({"implementation": "memory-bank"}, FROZEN_HEADS)


def test_build_sweep_returns_a_form_per_value_in_one_group():
    form = TrainForm("set", 10, "quick", changes={"seed": 3})
    forms = build_sweep(form, "feature_weight", "0.5, 1,,1, 2", now=datetime(2026, 1, 2, 3, 4, 5))
    assert [one.changes for one in forms] == [{"seed": 3, "feature_weight": value} for value in ("0.5", "1", "2")]
    (group,) = {one.group for one in forms}
    assert [one.title for one in forms] == [f"feature weight {value} · 02 Jan 03:04" for value in ("0.5", "1", "2")]
    expected = ["--set", "feature_weight=0.5", "--group", group, "--title", forms[0].title]
    assert forms[0].to_arguments()[-6:] == expected
    assert [one.clusters for one in build_sweep(form, "clusters", "5,10", now=datetime(2026, 1, 2))] == [5, 10]
    for values, fact in (("1", "at least 2"), ("1,x", "feature_weight"), ("1,-5", "feature_weight=-5")):
        with pytest.raises(UsageError, match=fact):
            build_sweep(form, "feature_weight", values, now=datetime(2026, 1, 2))


def test_build_sweep_checks_values_with_the_settings_of_the_preset_and_the_form():
    now = datetime(2026, 1, 2)
    form = TrainForm("photos", 10, "balanced", changes={"neighbours": 7})
    fine_tuned = build_sweep(form, "finetune_epochs", "0, 5", now=now, base=FROZEN_HEADS)
    assert [one.changes for one in fine_tuned] == [{"neighbours": 7, "finetune_epochs": value} for value in "05"]
    assert len(build_sweep(form, "finetune_epochs", "0, 5", now=now)) == 2  # the preset is not known yet
    with pytest.raises(UsageError, match="finetune_epochs=5"):  # end to end there is no stage to fine-tune after
        build_sweep(form, "finetune_epochs", "0, 5", now=now, base=TrainSettings())
    with pytest.raises(UsageError, match="memory-bank"):
        build_sweep(form, "implementation", "simclr, memory-bank", now=now, base=FROZEN_HEADS)
    with pytest.raises(UsageError, match="augment has no effect"):
        build_sweep(form, "augment", "photo, none", now=now, base=FROZEN_HEADS)
    changed = TrainForm("photos", 10, "balanced", changes={"frozen": False})
    with pytest.raises(UsageError, match="finetune_epochs=5"):
        build_sweep(changed, "finetune_epochs", "0, 5", now=now, base=FROZEN_HEADS)
    paper = TrainForm("photos", 10, "paper-two-stage-cifar10")
    with pytest.raises(UsageError, match="memory-bank"):
        build_sweep(paper, "implementation", "simclr, memory-bank", now=now)


def test_build_sweep_cuts_titles_that_are_too_long():
    long = "open_clip/ViT-SO400M-16-SigLIP2-512:webli_with_a_long_name_of_its_weights"
    first, _ = build_sweep(TrainForm("set", 10), "backbone", f"{long}, small", now=datetime(2026, 1, 2))
    assert first.title.startswith(f"backbone {long[:60]}")
    assert normalize_title(first.title) == first.title


def test_build_sweep_compares_parsed_values():
    form, now = TrainForm("set", 10), datetime(2026, 1, 2)
    forms = build_sweep(form, "feature_weight", "0.5, 0.50, 1, 1.0", now=now)
    assert [one.changes["feature_weight"] for one in forms] == ["0.5", "1"]
    with pytest.raises(UsageError, match="at least 2"):
        build_sweep(form, "feature_weight", "0.5, 0.50", now=now)
    assert [one.clusters for one in build_sweep(form, "clusters", "5, 05, 7", now=now)] == [5, 7]
