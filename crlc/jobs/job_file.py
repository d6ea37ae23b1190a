"""Job file: a JSON file with all jobs. Any process may read it at any time and edit it under a lock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

from crlc.errors import DamagedError, explain_disk_full
from crlc.files import read_json, write_json, writer_lock
from crlc.jobs.job import Job

_VERSION = 1
_LOCK_TIMEOUT_SECONDS = 10.0
_ADVICE = "Remove it: waiting jobs are lost, but running jobs are found again."

FileStamp = tuple[int, int, int]
"""Modification time, inode and size of the file."""


class _JobFileEntries(TypedDict):
    jobs: list[dict[str, Any]]


class JobFile:
    """Reads and edits the jobs of a workspace."""

    def __init__(self, root: Path) -> None:
        """Store the paths in the workspace folder `root`; nothing is created yet."""
        self.folder = root / "jobs"
        self._root = root
        self._path = self.folder / "queue.json"
        self._lock_path = root / "locks" / "jobs.lock"
        self._edit_lock = threading.Lock()  # between threads; the lock between processes is slower: it is polled
        self._read_lock = threading.Lock()
        self._cache: tuple[FileStamp | None, tuple[Job, ...]] = (None, ())

    def get_stamp(self) -> FileStamp | None:
        """Return a value that differs after every edit, or `None` while there is no file."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def read_jobs(self) -> tuple[Job, ...]:
        """Return all jobs, oldest request first.

        Raises:
            DamagedError: the file cannot be read.
        """
        with self._read_lock:
            stamp = self.get_stamp()
            if stamp != self._cache[0]:
                self._cache = (stamp, self._load() if stamp else ())
            return self._cache[1]

    @contextmanager
    def edit(self) -> Iterator[list[Job]]:
        """Yield the jobs as a list to edit; it is written when the context ends without an error.

        Raises:
            BusyError: another process holds the lock for longer than 10 s.
            DamagedError: the file cannot be read.
            DiskFullError: the file could not be written and is unchanged.
        """
        lock = writer_lock(self._lock_path, "The job queue", timeout_seconds=_LOCK_TIMEOUT_SECONDS)
        with self._edit_lock, explain_disk_full(self._root), lock:
            before = self.read_jobs()
            jobs = list(before)
            yield jobs
            if tuple(jobs) != before:
                self.folder.mkdir(parents=True, exist_ok=True)
                content = [job.to_json() for job in jobs]
                write_json(self._path, {"kind": "jobs", "version": _VERSION, "jobs": content})

    def _load(self) -> tuple[Job, ...]:
        content = read_json(self._path, "jobs", _VERSION, _ADVICE, _JobFileEntries)
        try:
            return tuple(map(Job.from_json, content["jobs"]))
        except ValueError as error:
            raise DamagedError(f"{self._path} is damaged: a job {error}.", advice=_ADVICE) from None
