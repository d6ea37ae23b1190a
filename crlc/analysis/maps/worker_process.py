"""Processes that compute one map each, and a process that is prepared in advance and waits for its map."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from crlc.files import get_cache_folder
from crlc.subprocesses import start_python

PREPARE_OPTION = "--prepare"


@dataclass(frozen=True)
class WorkerProcess:
    """A running `crlc.analysis.maps.worker`: it reads one job from its standard input, computes the map and exits."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]
    """Temporary file with the standard error of the process."""

    def send_job(self, job: bytes) -> None:
        """Write the job to the process.

        Raises:
            OSError: the process has ended.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(job + b"\n")
        self.process.stdin.flush()

    def close(self) -> int:
        """Wait until the process has ended, close its files except the log, and return its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        code = self.process.wait()
        with suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()
        return code


class PreparedWorker:
    """At most one process that waits for a map, with all libraries imported and all functions compiled.

    It ends with this process, because its standard input then closes.
    """

    def __init__(self) -> None:
        """Start no process yet."""
        self._lock = threading.Lock()
        self._waiting: WorkerProcess | None = None
        self._is_enabled = False

    def enable(self) -> None:
        """Start a process that waits for a map, and another one after each map."""
        with self._lock:
            self._is_enabled = True
        self.refill()

    def refill(self) -> None:
        """Start a process that waits for a map, if this is enabled and none is waiting."""
        with self._lock:
            if self._is_enabled and (self._waiting is None or self._waiting.process.poll() is not None):
                self._discard()
                with suppress(OSError):  # the next map starts its own process, or raises the reason
                    self._waiting = _start_worker(is_prepared=True)

    def disable(self) -> None:
        """End the waiting process and start no other."""
        with self._lock:
            self._is_enabled = False
            self._discard()

    def assign_job(self, job: bytes) -> WorkerProcess:
        """Send a job to the waiting process or, if there is none, to a new one; return the process.

        Raises:
            OSError: no process can be started.
        """
        with self._lock:
            worker, self._waiting = self._waiting, None
        if worker is not None:
            with suppress(OSError):
                if worker.process.poll() is None:
                    worker.send_job(job)
                    return worker
            _end_worker(worker)  # it was killed while it waited
        worker = _start_worker(is_prepared=False)
        with suppress(OSError):  # the process has already ended; the reader of its reports raises the reason
            worker.send_job(job)
        return worker

    @property
    def waiting(self) -> WorkerProcess | None:
        """The waiting process."""
        return self._waiting

    def _discard(self) -> None:
        if self._waiting is not None:
            _end_worker(self._waiting)
        self._waiting = None


PREPARED_WORKER = PreparedWorker()


def prepare_map_worker() -> None:
    """Start a process in the background that waits for a map, so that the next map starts immediately.

    From then on, another process is started after each map. `close_map_worker` ends it.
    """
    PREPARED_WORKER.enable()


def close_map_worker() -> None:
    """End the process that waits for a map; maps in progress continue."""
    PREPARED_WORKER.disable()


def _start_worker(*, is_prepared: bool) -> WorkerProcess:
    log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by the reader of the reports
    try:
        process = start_python(
            ["-m", "crlc.analysis.maps.worker", *([PREPARE_OPTION] if is_prepared else [])],
            stdout=subprocess.PIPE,
            stderr=log,
            defaults={
                # Threads that spin while they wait take the cores from the app.
                "OMP_WAIT_POLICY": "PASSIVE",
                # A folder that can be written, also if the package is installed for all users.
                "NUMBA_CACHE_DIR": str(get_cache_folder() / "numba"),
            },
        )
    except BaseException:
        log.close()
        raise
    return WorkerProcess(process, log)


def _end_worker(worker: WorkerProcess) -> None:
    with suppress(OSError):
        worker.process.kill()
    worker.close()
    worker.log.close()
