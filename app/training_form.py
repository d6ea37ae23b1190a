"""What the Train page asks for, as arguments of `crlc train`; and what each setting means, from where it is defined."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, get_type_hints

from app.field_help import field_help
from crlc.training.settings import (
    AUGMENTATIONS,
    CRITIC_NAMES,
    DEFAULT_BACKBONE,
    IMPLEMENTATIONS,
    OPTIMISERS,
    SCHEDULES,
    SCRATCH_NAMES,
    TrainSettings,
)

SUGGESTED = "auto"
_OPTIONS = ("epochs", "seed", "critic", "implementation", "augment", "backbone", "neighbours")
"""Settings that have an option of their own; the others go through --set."""


@dataclass(frozen=True)
class Setting:
    """One field of the settings, as a page shows it."""

    name: str
    kind: type
    help: str
    """In one line."""

    choices: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """For people: the name without underscores."""
        return self.name.replace("_", " ").capitalize()


_CHOICES: dict[str, tuple[str, ...]] = {
    "critic": CRITIC_NAMES,
    "implementation": IMPLEMENTATIONS,
    "augment": AUGMENTATIONS,
    "optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
    "backbone": (*SCRATCH_NAMES, DEFAULT_BACKBONE),
}


@cache
def known_settings() -> dict[str, Setting]:
    """All settings, in the order in which they are defined."""
    kinds, texts = get_type_hints(TrainSettings), field_help(TrainSettings)
    return {
        one.name: Setting(one.name, kinds[one.name], texts.get(one.name, ""), _CHOICES.get(one.name, ()))
        for one in fields(TrainSettings)
    }


@dataclass(frozen=True)
class TrainForm:
    """What a person asks for."""

    dataset: str
    clusters: int | str | None = None
    """A number, `auto`, or none for that of the classes or the preset."""

    preset: str = "quick"
    method: str = "auto"
    device: str = "auto"
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that are to be others than the preset's, by name."""

    def arguments(self) -> list[str]:
        """For `crlc train`."""
        given = [self.dataset]
        if self.clusters is not None:
            given += ["--clusters", str(self.clusters)]
        given += ["--preset", self.preset]
        given += ["--method", self.method] if self.method != "auto" else []
        given += ["--device", self.device] if self.device != "auto" else []
        for name, value in self.changes.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            given += [f"--{name}", text] if name in _OPTIONS else ["--set", f"{name}={text}"]
        return given

    def deviations(self, usual_presets: Sequence[str]) -> list[str]:
        """What is asked for beyond the number of clusters and one of the usual presets, in words."""
        said = [] if self.preset in usual_presets else [f"preset {self.preset}"]
        said += [f"method {self.method}"] if self.method != "auto" else []
        said += [f"compute on {self.device}"] if self.device != "auto" else []
        return said + [f"{name.replace('_', ' ')} {value}" for name, value in self.changes.items()]

    def command(self) -> str:
        """The same for a terminal."""
        return shlex.join(["crlc", "train", *self.arguments()])


def read_assignments(text: str) -> dict[str, str]:
    """Settings written as `name=value`, one to a line or separated by commas; the last word on each counts.

    What is not of that form is kept as a name without value, so that checking the settings tells what is wrong.
    """
    parts = (part.strip() for part in text.replace(",", "\n").splitlines())
    pairs = (part.partition("=") for part in parts if part)
    return {name.strip(): value.strip() for name, _, value in pairs}


def problem_with(changes: Mapping[str, Any], base: TrainSettings | None) -> str:
    """What is wrong with changed settings, in a sentence; empty when nothing is.

    Args:
        changes: by name.
        base: what they change; the defaults where that is not known yet.
    """
    from crlc.errors import UsageError

    given = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in changes.items()]
    try:
        (base or TrainSettings()).with_overrides(given)
    except UsageError as error:
        return str(error)
    return ""
