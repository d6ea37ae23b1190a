"""Work that takes long and that a page watches: one thread each, shared by all browser windows, cancellable."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from crlc.errors import CrlcError
from crlc.progress import Progress

_log = logging.getLogger(__name__)


class CancelledError(Exception):
    """Somebody does not want it any more."""


class Work:
    """One piece of work on its way."""

    def __init__(self, title: str, do: Callable[[Work], None]) -> None:
        """Begin.

        Args:
            title: what it is, for people.
            do: does it; reports to `Work.report`, and may give `Work.stop_with` what ends it at once.
        """
        self.title = title
        self.progress: Progress | None = None
        self.error: str | None = None
        self.result: object = None
        """What came of it, for whoever began it."""
        self.cancelled = False
        self._stop: Callable[[], None] | None = None
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._run, args=(do,), daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def report(self, progress: Progress) -> None:
        """How far it is; ends the work when it was cancelled."""
        self.progress = progress
        if self.cancelled:
            raise CancelledError

    def stop_with(self, stop: Callable[[], None]) -> None:
        """What ends it at once."""
        with self._guard:
            self._stop = stop
        if self.cancelled:
            raise CancelledError

    def cancel(self) -> None:
        """End it, now if it can be; nothing half-done stays."""
        with self._guard:
            self.cancelled = True
            stop = self._stop
        if stop is not None:
            stop()

    def wait(self, seconds: float | None = None) -> None:
        """Until it ended."""
        self._thread.join(seconds)

    def _run(self, do: Callable[[Work], None]) -> None:
        try:
            do(self)
        except CancelledError:
            pass
        except CrlcError as error:
            self.error = None if self.cancelled else str(error)
        except Exception as error:
            _log.exception("%s failed", self.title)
            self.error = f"{self.title} failed: {error!r}. Try again; if it stays, look at the log."


_works: dict[str, Work] = {}
_guard = threading.Lock()


def begin(key: str, title: str, do: Callable[[Work], None]) -> Work:
    """Begin a piece of work, unless it is on its way already."""
    with _guard:
        known = _works.get(key)
        if known is None or not known.running:
            _works[key] = known = Work(title, do)
        return known


def work(key: str) -> Work | None:
    """A piece of work that is on its way, or failed and was not dismissed."""
    with _guard:
        return _works.get(key)


def works(prefix: str) -> dict[str, Work]:
    """All pieces of work whose keys begin so, in the order in which they were begun."""
    with _guard:
        return {key: found for key, found in _works.items() if key.startswith(prefix)}


def dismiss(key: str) -> None:
    """Forget how it ended."""
    with _guard:
        found = _works.get(key)
        if found is not None and not found.running:
            del _works[key]
