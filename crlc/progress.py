"""How far a long piece of work is, for a terminal, a page or a log: whoever passes a callback."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

IMAGES, ROUNDS = "images", "rounds"
_REPORT_EVERY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """One report."""

    stage: str
    """What is being done, as people would say it: `Listing`, `Decoding`."""

    done: int
    total: int | None
    """How many there are to do; `None` while that is not known."""

    per_second: float
    finished: bool = False
    unit: str = IMAGES
    """What is counted, in the plural: `images`, `rounds`."""

    @property
    def seconds_left(self) -> float | None:
        """An estimate, once there is something to estimate from."""
        if self.total is None or not self.per_second:
            return None
        return max(0, self.total - self.done) / self.per_second


ProgressCallback = Callable[[Progress], None]


def no_progress(_: Progress) -> None:
    """Listen to nothing."""


class Stage:
    """Counts one stage of the work and reports a few times a second."""

    def __init__(self, name: str, total: int | None, report: ProgressCallback, unit: str = IMAGES) -> None:
        """Start the clock; what is counted are images unless another unit is named."""
        self.total = total
        self._name, self._report, self._unit = name, report, unit
        self._started = self._reported = time.monotonic()
        self._done = 0

    def advance(self, count: int = 1) -> None:
        """Note that some more is done."""
        self._done += count
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY_SECONDS:
            self._reported = now
            self._report(self._state(finished=False))

    def finish(self) -> None:
        """Report the end of the stage, unless there was nothing to do."""
        if self._done:
            self._report(self._state(finished=True))

    def _state(self, *, finished: bool) -> Progress:
        seconds = max(time.monotonic() - self._started, 1e-9)
        return Progress(self._name, self._done, self.total, self._done / seconds, finished, self._unit)
