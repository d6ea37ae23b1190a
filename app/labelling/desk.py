"""Decisions that come from the keyboard: each written once, in their order, to the image that it was made about.

The browser numbers its decisions and sends all that it does not know to be answered, again and again; here each number
is carried out once. So none is lost when several come at once, and none is done twice.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from crlc.errors import CrlcError
from crlc.names import printable
from crlc.workspace.annotations import Annotations, Entry, NotLatestError

LABEL, EXCLUDE, INCLUDE, SKIP, UNDO = "label", "exclude", "include", "skip", "undo"
_REMEMBERED = 1000
_WINDOWS = 8


class Decision(NamedTuple):
    """What a person decided about one image."""

    number: int
    """Counted by the browser, from 1."""

    act: str
    image: int
    name: str = ""
    of: int | None = None
    """For undo: the number of the decision to take back; none for the last change to the data set."""


class Work(NamedTuple):
    """What the browser sends."""

    window: str
    """Another one for every opened page."""

    seen: int
    """Up to this number it knows what became of its decisions."""

    at: int | None
    """The image that it shows."""

    decisions: tuple[Decision, ...]


class Before(NamedTuple):
    """How an image was before a decision."""

    image: int
    label: str | None
    is_excluded: bool
    entry: int | None
    """Of the history: what the decision wrote."""


def read_work(value: Any) -> Work | None:
    """What came from the browser; none when it is nothing that the page sends."""
    try:
        decisions = tuple(
            Decision(int(one["n"]), str(one["act"]), int(one["id"]), str(one.get("name") or ""), _number(one.get("of")))
            for one in value["decisions"]
        )
        return Work(str(value["window"]), int(value["seen"]), _number(value.get("at")), decisions)
    except (TypeError, KeyError, ValueError):
        return None


@dataclass
class Desk:
    """What is known of the decisions of one browser session."""

    window: str = ""
    answered: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """The last number carried out, by window."""

    failed: dict[int, str] = field(default_factory=dict)
    """Why decisions could not be written, by their number."""

    skipped: set[int] = field(default_factory=set)
    at: int | None = None
    saved: str | None = None
    """When the last one was on the disk, as a clock shows it."""

    said: str | None = None
    _before: OrderedDict[int, Before] = field(default_factory=OrderedDict)

    @property
    def last(self) -> int:
        """Up to this number the decisions of the window are answered."""
        return self.answered.get(self.window, 0)

    def take(self, work: Work, annotations: Annotations) -> int:
        """Carry out what is new.

        Returns:
            how many decisions that were.
        """
        if work.window != self.window:
            self.window = work.window
            self.failed, self._before = {}, OrderedDict()
            self.answered[work.window] = self.answered.pop(work.window, 0)
            while len(self.answered) > _WINDOWS:
                self.answered.popitem(last=False)
        self.failed = {number: text for number, text in self.failed.items() if number > work.seen}
        if work.at is not None:
            self.at = work.at
        new = sorted({one.number: one for one in work.decisions if one.number > self.last}.values())
        for decision in new:
            try:
                self._carry_out(decision, annotations)
            except (CrlcError, OSError) as error:
                self.failed[decision.number] = str(error)
            self.answered[self.window] = decision.number
        return len(new)

    def _carry_out(self, decision: Decision, annotations: Annotations) -> None:
        self.said = None
        if decision.act == UNDO:
            self._undo(decision, annotations)
        elif decision.act == SKIP:
            self._note(decision, annotations, None)
            self.skipped.add(decision.image)
            return  # nothing to be on the disk
        else:
            self._note(decision, annotations, None)
            entry = self._write(decision, annotations)
            self._note(decision, annotations, entry)
            self.skipped.discard(decision.image)
        self.saved = f"{datetime.now():%H:%M:%S}"

    def _note(self, decision: Decision, annotations: Annotations, entry: Entry | None) -> None:
        """How it was before, noted before it changes; then the entry of what was written."""
        known = self._before.get(decision.number)
        if known is not None:
            self._before[decision.number] = known._replace(entry=None if entry is None else entry.id)
            return
        now = annotations.refresh()
        excluded = bool(now.is_excluded([decision.image])[0])
        self._before[decision.number] = Before(decision.image, now.label(decision.image), excluded, None)
        while len(self._before) > _REMEMBERED:
            self._before.popitem(last=False)

    def _write(self, decision: Decision, annotations: Annotations) -> Entry | None:
        image = [decision.image]
        if decision.act == LABEL:
            if annotations.refresh().is_excluded(image)[0]:
                annotations.include(image)  # who names an image wants it
            return annotations.label(image, decision.name)
        if decision.act == EXCLUDE:
            return annotations.exclude(image)
        if decision.act == INCLUDE:
            return annotations.include(image)
        raise CrlcError(f"{printable(decision.act)!r} is nothing that can be done to an image. Reload the page.")

    def _undo(self, decision: Decision, annotations: Annotations) -> None:
        if decision.of is None:
            self.said = f"Undone: {printable(annotations.undo().title)}"
            return
        before = self._before.get(decision.of)
        if before is None:
            raise CrlcError("This decision is too long ago to be taken back by its key. Use the Undo button.")
        self.skipped.discard(before.image)
        put_back(before, annotations)


def put_back(before: Before, annotations: Annotations) -> None:
    """Make an image what it was before; what others did since, here or in another window, stays."""
    if before.entry is not None:
        with suppress(NotLatestError):  # others went on: it is put back by what follows
            annotations.undo(only=before.entry)
    now, image = annotations.refresh(), [before.image]
    if now.label(before.image) != before.label:
        if before.label is None:
            annotations.unlabel(image)
        else:
            annotations.label(image, before.label)
    if bool(now.is_excluded(image)[0]) != before.is_excluded:
        (annotations.exclude if before.is_excluded else annotations.include)(image)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
