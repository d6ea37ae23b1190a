"""Progress of long operations, reported through a callback to a terminal, a page or another process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

IMAGES, ROUNDS = "images", "rounds"
_REPORT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """One report about a stage of a long operation."""

    stage: str
    """Name of the operation on screen: `Listing`, `Decoding`."""

    done: int
    total: int | None
    """Number of items to do; `None` while it is unknown."""

    per_second: float
    finished: bool = False
    unit: str = IMAGES
    """The items that are counted, in the plural: `images`, `rounds`."""

    @property
    def seconds_left(self) -> float | None:
        """Estimated time left, or `None` while it cannot be estimated."""
        if self.total is None or not self.per_second:
            return None
        return max(0, self.total - self.done) / self.per_second

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON-compatible values, to send it to another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Create a report from the result of `to_json` in another process.

        Raises:
            KeyError: a field is missing.
        """
        return cls(**{field.name: content[field.name] for field in fields(cls)})


ProgressCallback = Callable[[Progress], None]


def no_progress(_: Progress) -> None:
    """Ignore the report: the default callback."""


class ProgressStage:
    """Progress counter of one stage; calls its callback at most ten times a second."""

    def __init__(self, name: str, total: int | None, report: ProgressCallback, unit: str = IMAGES) -> None:
        """Start the clock.

        Args:
            name: name of the stage on screen.
            total: number of items to do; `None` while it is unknown.
            report: receives the reports.
            unit: the items that are counted, in the plural.
        """
        self.total = total
        self._name, self._report, self._unit = name, report, unit
        self._started = self._reported = time.monotonic()
        self._done = 0

    def start(self) -> None:
        """Report that the stage has started, before its first item, which may take long to prepare."""
        self._report(self._make_report(finished=False))

    def advance(self, count: int = 1) -> None:
        """Count more items as done."""
        self._done += count
        now = time.monotonic()
        if now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._report(self._make_report(finished=False))

    def finish(self) -> None:
        """Report the end of the stage, unless no item was done."""
        if self._done:
            self._report(self._make_report(finished=True))

    def _make_report(self, *, finished: bool) -> Progress:
        seconds = max(time.monotonic() - self._started, 1e-9)
        return Progress(self._name, self._done, self.total, self._done / seconds, finished, self._unit)
