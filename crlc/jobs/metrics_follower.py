"""The metrics of a run while it trains: only what is new is read, once for all who look."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crlc.training.run_folder import RunFolder

_FOLLOWERS_KEPT = 16


@dataclass(frozen=True)
class Place:
    """How far somebody has read: in which telling of the story, and how many records of it."""

    telling: int = 0
    count: int = 0


@dataclass(frozen=True)
class News:
    """Records that somebody has not seen. They are shared between all readers: not to be changed."""

    records: list[dict[str, Any]]
    place: Place
    """Where to go on from."""

    begins_anew: bool
    """Whether the records are all there are, in place of those seen before: a resumed run tells some again."""


class MetricsFollower:
    """Reads metrics.jsonl as it grows; for any number of threads."""

    def __init__(self, run: RunFolder) -> None:
        """Take the run; nothing is read yet."""
        self._file = run.path / "metrics.jsonl"
        self._status = run.path / "status.json"
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._writer: object = None
        self._telling = 1
        self._records: list[dict[str, Any]] = []
        self._end = 0
        self._last_line = b""

    def records(self) -> list[dict[str, Any]]:
        """All whole lines that there are now."""
        return self.since(Place()).records

    def since(self, place: Place) -> News:
        """What came after a place, all of it for a new `Place()`."""
        with self._lock:
            self._catch_up()
            begins_anew = place.telling != self._telling
            records = self._records[0 if begins_anew else place.count :]
            return News(records, Place(self._telling, len(self._records)), begins_anew)

    # ---- inside

    def _catch_up(self) -> None:
        try:
            found = self._file.stat()
        except FileNotFoundError:
            if self._end:
                self._forget()
            self._seen = None
            return
        seen = (found.st_ino, found.st_size, found.st_mtime_ns)
        if seen == self._seen:
            return
        # A resumed run cuts the file and writes on; by the time it is longer again, its process is another.
        writer = self._present_writer()
        if self._end and writer != self._writer:
            self._forget()
        self._writer = writer
        if not self._read_on():
            self._forget()
            self._read_on()
        self._seen = seen

    def _read_on(self) -> bool:
        """Read new whole lines; False when what was read before is not there any more."""
        with self._file.open("rb") as stream:
            stream.seek(self._end - len(self._last_line))
            content = stream.read()
        if not content.startswith(self._last_line):
            return False
        fresh = content[len(self._last_line) : content.rfind(b"\n") + 1]  # without a line that is being written
        for line in fresh.splitlines(keepends=True):
            try:
                self._records.append(json.loads(line))
            except ValueError:
                break  # cut and grown while we read: soon there is another writer. Or damaged: nothing after it counts
            self._end += len(line)
            self._last_line = line
        return True

    def _forget(self) -> None:
        self._telling += 1
        self._records = []  # a new list: somebody may hold the old one
        self._end, self._last_line = 0, b""

    def _present_writer(self) -> object:
        try:
            status = json.loads(self._status.read_bytes())
            return status.get("pid"), status.get("process_started")
        except (OSError, ValueError):
            return None


_followers: OrderedDict[Path, MetricsFollower] = OrderedDict()
_followers_lock = threading.Lock()


def follower_of(run: RunFolder) -> MetricsFollower:
    """The follower that all of this process share; of the runs looked at last a few are kept."""
    path = run.path.absolute()
    with _followers_lock:
        follower = _followers.setdefault(path, MetricsFollower(run))
        _followers.move_to_end(path)
        while len(_followers) > _FOLLOWERS_KEPT:
            _followers.popitem(last=False)
        return follower
