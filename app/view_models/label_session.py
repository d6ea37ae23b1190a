"""Decisions of the user on the Label page: each is written once, in order, for its own image.

The browser numbers its decisions, and sends every decision again until it is acknowledged. The session executes each
number once, so that no decision is lost when several arrive together, and none is executed twice.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from crlc.annotations.store import AnnotationStore, HistoryEntry, NotLatestError
from crlc.errors import CrlcError
from crlc.paths import to_printable

LABEL, EXCLUDE, INCLUDE, SKIP, UNDO = "label", "exclude", "include", "skip", "undo"
_MAX_UNDOABLE_DECISIONS = 1000
_MAX_WINDOWS = 8


class Decision(NamedTuple):
    """A decision of the user about one image."""

    number: int
    """Number that the browser assigned, from 1."""

    act: str
    image: int
    name: str = ""
    of: int | None = None
    """For undo: the number of the decision to undo; `None` for the last change of the dataset."""


class DecisionBatch(NamedTuple):
    """Decisions that the browser sends in one message."""

    window: str
    """Identifier of the open page; every opened page has its own."""

    seen: int
    """Number of the last decision whose outcome the browser knows."""

    at: int | None
    """The image that the browser shows."""

    decisions: tuple[Decision, ...]

    def list_labels(self) -> list[str]:
        """Return the names of the labels, in the order in which the browser has assigned keys to new ones."""
        return [decision.name for decision in self.decisions if decision.act == LABEL]


class PreviousState(NamedTuple):
    """State of an image before a decision."""

    image: int
    label: str | None
    is_excluded: bool
    entry: int | None
    """Id of the history entry that the decision wrote."""


def parse_batch(value: Any) -> DecisionBatch | None:
    """Return the decisions in a value from the browser; `None` if the value is not valid."""
    try:
        decisions = tuple(
            Decision(
                int(one["n"]),
                str(one["act"]),
                int(one["id"]),
                str(one.get("name") or ""),
                _parse_optional_int(one.get("of")),
            )
            for one in value["decisions"]
        )
        return DecisionBatch(str(value["window"]), int(value["seen"]), _parse_optional_int(value.get("at")), decisions)
    except (TypeError, KeyError, ValueError):
        return None


@dataclass
class LabelSession:
    """Decisions of one browser session and their outcomes."""

    window: str = ""
    answered: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """Number of the last executed decision, by window."""

    failed: dict[int, str] = field(default_factory=dict)
    """Errors of decisions that could not be written, by number."""

    skipped: set[int] = field(default_factory=set)
    at: int | None = None
    saved_at: str | None = None
    """Time at which the last decision was written to disk, as HH:MM:SS."""

    message: str | None = None
    _previous_states: OrderedDict[int, PreviousState] = field(default_factory=OrderedDict)

    @property
    def last(self) -> int:
        """Number of the last executed decision of the current window."""
        return self.answered.get(self.window, 0)

    def apply(self, batch: DecisionBatch, annotations: AnnotationStore) -> int:
        """Execute the decisions of a batch that were not executed before.

        Returns:
            Number of executed decisions.
        """
        if batch.window != self.window:
            self.window = batch.window
            self.failed, self._previous_states = {}, OrderedDict()
            self.answered[batch.window] = self.answered.pop(batch.window, 0)
            while len(self.answered) > _MAX_WINDOWS:
                self.answered.popitem(last=False)
        self.failed = {number: text for number, text in self.failed.items() if number > batch.seen}
        if batch.at is not None:
            self.at = batch.at
        new = sorted({one.number: one for one in batch.decisions if one.number > self.last}.values())
        for decision in new:
            try:
                self._execute(decision, annotations)
            except (CrlcError, OSError) as error:
                self.failed[decision.number] = str(error)
            self.answered[self.window] = decision.number
        return len(new)

    def _execute(self, decision: Decision, annotations: AnnotationStore) -> None:
        self.message = None
        if decision.act == UNDO:
            self._undo(decision, annotations)
        elif decision.act == SKIP:
            self._remember_state(decision, annotations)
            self.skipped.add(decision.image)
            return  # nothing was written to disk
        else:
            self._remember_state(decision, annotations)
            entry = self._write(decision, annotations)
            if entry is not None:
                self._previous_states[decision.number] = self._previous_states[decision.number]._replace(entry=entry.id)
            self.skipped.discard(decision.image)
        self.saved_at = f"{datetime.now():%H:%M:%S}"

    def _remember_state(self, decision: Decision, annotations: AnnotationStore) -> None:
        """Remember the state of the image before a decision, once: an interrupted decision is executed again."""
        if decision.number in self._previous_states:
            return
        now = annotations.refresh()
        excluded = bool(now.is_excluded([decision.image])[0])
        self._previous_states[decision.number] = PreviousState(
            decision.image, now.get_label(decision.image), excluded, None
        )
        while len(self._previous_states) > _MAX_UNDOABLE_DECISIONS:
            self._previous_states.popitem(last=False)

    def _write(self, decision: Decision, annotations: AnnotationStore) -> HistoryEntry | None:
        image = [decision.image]
        if decision.act == LABEL:
            if annotations.refresh().is_excluded(image)[0]:
                annotations.include(image)  # labelling an excluded image includes it again
            return annotations.label(image, decision.name)
        if decision.act == EXCLUDE:
            return annotations.exclude(image)
        if decision.act == INCLUDE:
            return annotations.include(image)
        raise CrlcError(f"{to_printable(decision.act)!r} is not a known decision.", advice="Reload the page.")

    def _undo(self, decision: Decision, annotations: AnnotationStore) -> None:
        if decision.of is None:
            self.message = f"Undone: {to_printable(annotations.undo().title)}"
            return
        before = self._previous_states.get(decision.of)
        if before is None:
            raise CrlcError("This decision is too old to be undone with the Z key.", advice="Use the Undo button.")
        self.skipped.discard(before.image)
        restore_image(before, annotations)


def restore_image(previous: PreviousState, annotations: AnnotationStore) -> None:
    """Restore the state of an image before a decision; later changes of other images stay."""
    if previous.entry is not None:
        with suppress(NotLatestError):  # there are later changes: the image is restored below
            annotations.undo(only=previous.entry)
    now, image = annotations.refresh(), [previous.image]
    if now.get_label(previous.image) != previous.label:
        if previous.label is None:
            annotations.unlabel(image)
        else:
            annotations.label(image, previous.label)
    if bool(now.is_excluded(image)[0]) != previous.is_excluded:
        (annotations.exclude if previous.is_excluded else annotations.include)(image)


def _parse_optional_int(value: Any) -> int | None:
    return None if value is None else int(value)
