"""The queue on disk: one JSON file that any process reads at any time and changes under a lock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crlc.errors import DamagedError, disk_full_explained
from crlc.files import read_json, write_json, writer_lock
from crlc.jobs.job import Job

_VERSION = 1
_PATIENCE_SECONDS = 10.0
_ADVICE = "Remove it: waiting jobs are forgotten, running trainings are found again."

Stamp = tuple[int, int, int]


class JobFile:
    """Reads and changes the jobs of a workspace."""

    def __init__(self, root: Path) -> None:
        """Take the workspace's folder; nothing is made yet."""
        self.folder = root / "jobs"
        self._root = root
        self._path = self.folder / "queue.json"
        self._lock_path = root / "locks" / "jobs.lock"
        self._changing = threading.Lock()  # between threads; waiting for a lock of the system means looking again
        self._reading = threading.Lock()
        self._read: tuple[Stamp | None, tuple[Job, ...]] = (None, ())

    def stamp(self) -> Stamp | None:
        """Another one after every change; None as long as there is no file."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def jobs(self) -> tuple[Job, ...]:
        """All jobs, in the order in which they were asked for.

        Raises:
            DamagedError: the file is not what this program wrote.
        """
        with self._reading:
            stamp = self.stamp()
            if stamp != self._read[0]:
                self._read = (stamp, self._load() if stamp else ())
            return self._read[1]

    @contextmanager
    def changing(self) -> Iterator[list[Job]]:
        """The jobs as a list to be changed; it is written when the context ends without an error.

        Raises:
            BusyError: another process holds the file for long.
            DamagedError: the file is not what this program wrote.
            DiskFullError: it could not be written; it is as it was.
        """
        lock = writer_lock(self._lock_path, "The queue of jobs", patience=_PATIENCE_SECONDS)
        with self._changing, disk_full_explained(self._root), lock:
            before = self.jobs()
            jobs = list(before)
            yield jobs
            if tuple(jobs) != before:
                self.folder.mkdir(parents=True, exist_ok=True)
                content = [job.to_json() for job in jobs]
                write_json(self._path, {"kind": "jobs", "version": _VERSION, "jobs": content})

    def _load(self) -> tuple[Job, ...]:
        content = read_json(self._path, "jobs", _VERSION, _ADVICE)
        try:
            return tuple(map(Job.from_json, content["jobs"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(f"{self._path} is damaged ({error}). {_ADVICE}") from None
