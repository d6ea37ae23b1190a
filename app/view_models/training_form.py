"""The form of the Train page as arguments of `crlc train`, and the fields of its advanced settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any

from crlc.cli.train import SETTINGS_WITH_OPTION
from crlc.errors import UsageError
from crlc.runs.run_title import MAX_TITLE_LENGTH
from crlc.training.paper_presets import PAPER_PRESETS, SEMI_PRESETS, build_paper_preset
from crlc.training.request import TrainRequest, require_effect
from crlc.training.settings import TrainSettings, describe_settings, find_setting

_MIN_SWEEP_VALUES = 2
_SYMBOLS = {
    "entropy_weight": "λ1",
    "feature_weight": "λ2",
    "label_weight": "λ3",
    "smoothing": "γ",
    "temperature": "τ",
    "bank_negatives": "M",
    "bank_momentum": "α",
}
"""Symbols of the paper, by name of the setting."""


@dataclass(frozen=True)
class SettingField:
    """A training setting and its description for a form."""

    name: str
    kind: type
    help: str
    choices: tuple[str, ...] = ()
    group: str = ""
    """Name of the group of settings that the field belongs to, such as `optimization`."""

    @property
    def label(self) -> str:
        """The name without underscores, with the symbol of the paper."""
        words = self.name.replace("_", " ").capitalize()
        return f"{words} {_SYMBOLS[self.name]}" if self.name in _SYMBOLS else words


@cache
def list_setting_fields() -> dict[str, SettingField]:
    """Return all settings by name, group by group."""
    return {
        name: SettingField(name, info.kind, info.help, info.choices or info.suggestions, group)
        for group, described in describe_settings().items()
        for name, info in described.items()
    }


@dataclass(frozen=True)
class TrainForm:
    """Values of the training form."""

    dataset: str
    clusters: int | None = None
    """Number of clusters; `None` for the default of `crlc train`."""

    preset: str = "quick"
    method: str = "auto"
    device: str = "auto"
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the preset, by name."""

    group: str | None = None
    """Name of the sweep that the run belongs to."""

    title: str = ""
    """Title of the run; empty to name it by start time, preset and number of clusters."""

    variant: str = ""
    """Variant of a preset of the paper; empty for none."""

    weights: str = ""
    """File with pretrained weights; empty for none."""

    def to_arguments(self) -> list[str]:
        """Return the arguments of `crlc train`."""
        arguments = [self.dataset]
        if self.clusters is not None:
            arguments += ["--clusters", str(self.clusters)]
        arguments += ["--preset", self.preset]
        arguments += ["--variant", self.variant] if self.variant else []
        arguments += ["--weights", self.weights] if self.weights else []
        # Presets of CRLC-semi train from scratch, with the labels of the Label page.
        arguments += ["--labels", "workspace"] if self.preset in SEMI_PRESETS else []
        arguments += ["--method", self.method] if self.method != "auto" else []
        arguments += ["--device", self.device] if self.device != "auto" else []
        for name, value in self.changes.items():
            text = _format_value(value)
            arguments += [f"--{name}", text] if name in SETTINGS_WITH_OPTION else ["--set", f"{name}={text}"]
        arguments += ["--group", self.group] if self.group is not None else []
        arguments += ["--title", self.title] if self.title else []
        return arguments

    def describe_changes(self, main_presets: Sequence[str]) -> list[str]:
        """Return the differences from the main presets as texts, without the number of clusters."""
        texts = [] if self.preset in main_presets else [f"preset {self.preset}"]
        texts += [f"variant {self.variant}"] if self.variant else []
        texts += [f"weights {self.weights}"] if self.weights else []
        texts += [f"method {self.method}"] if self.method != "auto" else []
        texts += [f"device {self.device}"] if self.device != "auto" else []
        return texts + [f"{name.replace('_', ' ')} {value}" for name, value in self.changes.items()]

    def to_command(self) -> str:
        """Return the equivalent terminal command."""
        return shlex.join(["crlc", "train", *self.to_arguments()])


def build_sweep(
    form: TrainForm, setting: str, values: str, *, now: datetime, base: TrainSettings | None = None
) -> list[TrainForm]:
    """Return a form for each value of a setting, in one group; the titles of the runs have their values.

    Args:
        form: the form of all runs.
        setting: name of the setting that differs.
        values: its values, separated by commas.
        now: time that makes the name of the group unique.
        base: the settings of the preset, before the changes of the form; `None` if they are not known yet. Without them
            only the values themselves are checked.

    Raises:
        UsageError: a value is not allowed with the other settings, has no effect, or there are fewer than two.
    """
    texts = [value.strip() for value in values.split(",") if value.strip()]
    base = base or _build_known_preset(form)
    given: dict[Any, str] = {}
    for text in texts:
        given.setdefault(_parse_sweep_value(form, setting, text, base), text)
    if len(given) < _MIN_SWEEP_VALUES:
        raise UsageError(f"A sweep needs at least {_MIN_SWEEP_VALUES} values of {setting}, separated by commas.")
    words = setting.replace("_", " ")
    group = f"{words} · {form.dataset} · {now:%d %b %H:%M:%S}"
    forms = []
    for value, text in given.items():
        title = f"{words} {text} · {now:%d %b %H:%M}"[:MAX_TITLE_LENGTH]  # the names of some backbones are long
        one = replace(form, group=group, title=title)
        if setting == "clusters":
            forms.append(replace(one, clusters=value))
        else:
            forms.append(replace(one, changes={**form.changes, setting: text}))
    return forms


def _build_known_preset(form: TrainForm) -> TrainSettings | None:
    """Return the settings of a preset of the paper; `None` for presets that adapt to the data."""
    if form.preset not in PAPER_PRESETS:
        return None
    return build_paper_preset(form.preset, form.variant, form.weights)


def _parse_sweep_value(form: TrainForm, setting: str, text: str, base: TrainSettings | None) -> Any:
    """Return a value of a setting, after checking it together with the other settings of the form."""
    group, name = find_setting(setting)
    value = describe_settings()[group][name].parse(text)
    if base is None:
        replace(getattr(TrainSettings(), group), **{name: value})
        return value
    others = [f"{other}={_format_value(given)}" for other, given in form.changes.items() if other != setting]
    base.with_overrides([*others, f"{setting}={text}"])
    if setting in SETTINGS_WITH_OPTION:
        require_effect(TrainRequest(form.preset, values={setting: value}), base)
    return value


def parse_assignments(text: str) -> dict[str, str]:
    """Return settings written as `name=value`, one per line or separated by commas; the last value of a name counts.

    Text in another format becomes a name without a value, which validation then reports.
    """
    parts = (part.strip() for part in text.replace(",", "\n").splitlines())
    pairs = (part.partition("=") for part in parts if part)
    return {name.strip(): value.strip() for name, _, value in pairs}


def validate_changes(changes: Mapping[str, Any], base: TrainSettings | None) -> str:
    """Return the message of the error that changed settings cause; empty if they are allowed.

    Args:
        changes: the changed values by name.
        base: the settings before the changes; `None` for the defaults.
    """
    given = [f"{name}={_format_value(value)}" for name, value in changes.items()]
    try:
        (base or TrainSettings()).with_overrides(given)
    except UsageError as error:
        return str(error)
    return ""


def _format_value(value: Any) -> str:
    """Return the text of a setting on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)
