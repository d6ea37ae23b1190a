"""Incremental reader of a metrics log while the run trains, shared by all browser sessions of a process."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from crlc.runs.folder import RunFolder
from crlc.runs.metrics_log import parse_record

_CACHED_FOLLOWERS = 16


class MetricsFollower:
    """Reader that parses each line of metrics.jsonl once. Safe for any number of threads."""

    def __init__(self, run: RunFolder) -> None:
        """Store the paths; nothing is read yet."""
        self._file = run.metrics_log.path
        self._status_file = run.path / "status.json"
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._writer: object = None
        self._records: list[dict[str, Any]] = []
        self._end = 0
        self._last_line = b""

    def read_records(self) -> list[dict[str, Any]]:
        """Return all complete records. They are shared between all readers and must not be modified.

        A file that is missing or damaged, such as a folder in its place, has no records.
        """
        with self._lock:
            try:
                self._update()
            except PermissionError:
                raise
            except OSError:
                self._reset()
                self._stamp = None
            return list(self._records)

    def _update(self) -> None:
        status = self._file.stat()
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp == self._stamp:
            return
        # A resumed run truncates the file. By the time the file is longer again, another process writes it.
        writer = self._read_writer()
        if writer != self._writer:
            self._reset()
        self._writer = writer
        if not self._read_new_lines():
            self._reset()
            self._read_new_lines()
        self._stamp = stamp

    def _read_new_lines(self) -> bool:
        """Read new complete lines; return False if the last line read is no longer at its position in the file."""
        with self._file.open("rb") as stream:
            stream.seek(self._end - len(self._last_line))
            content = stream.read()
        if not content.startswith(self._last_line):
            return False
        new = content[len(self._last_line) : content.rfind(b"\n") + 1]  # without a line that is being written
        for line in new.splitlines(keepends=True):
            try:
                self._records.append(parse_record(line))
            except ValueError:
                # The file was truncated and extended during this call: the writer changes soon, and all lines are read
                # again. Otherwise the file is damaged, and nothing after this line is used.
                break
            self._end += len(line)
            self._last_line = line
        return True

    def _reset(self) -> None:
        self._records = []
        self._end, self._last_line = 0, b""

    def _read_writer(self) -> object:
        """Return the identity of the process that writes the file."""
        try:
            status = json.loads(self._status_file.read_bytes())
            return status.get("pid"), status.get("process_started")
        except (OSError, ValueError, AttributeError, RecursionError):
            return None


_followers: OrderedDict[Path, MetricsFollower] = OrderedDict()
_followers_lock = threading.Lock()


def get_follower(run: RunFolder) -> MetricsFollower:
    """Return the follower of a run that all threads share; the most recently used ones are cached."""
    path = run.path.absolute()
    with _followers_lock:
        follower = _followers.setdefault(path, MetricsFollower(run))
        _followers.move_to_end(path)
        while len(_followers) > _CACHED_FOLLOWERS:
            _followers.popitem(last=False)
        return follower
