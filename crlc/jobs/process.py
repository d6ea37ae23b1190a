"""Processes of trainings: started so that they outlive us, known again by number and start time, awaited, ended."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from crlc.training.run_folder import is_alive

_PACKAGE_ROOT = Path(__file__).resolve().parents[2]
# Threads that wait by spinning take the cores from the pages and from whatever else runs: beside other work, training
# had twice the images/s without.
_QUIET_THREADS = {"OMP_WAIT_POLICY": "PASSIVE"}
# Children of this process that nobody has collected yet; a queue that is closed and opened again still has to.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class ProcessId:
    """A process of this computer: numbers are used again, so that its start time belongs to its name."""

    pid: int
    started: float

    def is_alive(self) -> bool:
        """Whether it is this very process that has the number, and it has not ended."""
        return is_alive(self.pid, self.started)

    def signal(self, *, kill: bool) -> None:
        """Ask it and its group to end, or end it and all it started at once; without effect when it is gone."""
        if not self.is_alive():
            return
        with suppress(OSError, psutil.Error):
            process = psutil.Process(self.pid)
            if kill:
                # Of several that train together, some have sessions of their own and would be left over.
                for one in (*process.children(recursive=True), process):
                    with suppress(psutil.Error):
                        one.kill()
            elif os.name == "posix" and os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGTERM)  # ours lead their group; others may share a person's script's
            else:
                process.terminate()


class Child:
    """A process that was started and waits for the word to begin (see `crlc.jobs.starter`)."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        """Start it in a session of its own: a Ctrl-C for the app, or its terminal's end, is not for the training.

        Raises:
            OSError: it cannot be started.
        """
        paths = [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]
        flags = 0 if os.name == "posix" else subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW  # type: ignore[attr-defined,unused-ignore]
        with log.open("ab") as stream:
            self._popen = subprocess.Popen(
                # -P: a numpy.py in the folder where somebody stands must not be what is imported.
                [sys.executable, "-P", "-m", "crlc.jobs.starter", *arguments],
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**_QUIET_THREADS, **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
                start_new_session=True,
                creationflags=flags,
            )
        _CHILDREN[self._popen.pid] = self._popen
        # It waits for us or has not been collected: its number cannot be another's yet.
        self.process = ProcessId(self._popen.pid, psutil.Process(self._popen.pid).create_time())

    def begin(self) -> None:
        """Give the word."""
        assert self._popen.stdin is not None
        with suppress(OSError):  # it was killed meanwhile, which is noticed like any other end
            self._popen.stdin.write(b"begin\n")
            self._popen.stdin.flush()
        self.leave()

    def leave(self) -> None:
        """Let go of it; without the word it ends by itself."""
        assert self._popen.stdin is not None
        with suppress(OSError):
            self._popen.stdin.close()


def collect_children() -> None:
    """Let the system forget our processes that have ended."""
    for pid, popen in list(_CHILDREN.items()):
        if popen.poll() is not None:
            del _CHILDREN[pid]


class ProcessWatch:
    """Sleeps until a process ends, somebody wakes it, or time is up."""

    def __init__(self) -> None:
        """Follow nobody yet."""
        self._selector = selectors.DefaultSelector()
        self._ear, self._mouth = socket.socketpair()
        self._ear.setblocking(False)
        self._mouth.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._handles: dict[ProcessId, int] = {}
        self.sees_all = True
        """Whether every process followed will end the sleep; where the system cannot tell, one has to look."""

    def follow(self, processes: Collection[ProcessId]) -> None:
        """Notice the end of these, and of no others."""
        for process in set(self._handles) - set(processes):
            self._drop(process)
        for process in set(processes) - set(self._handles):
            handle = _end_handle(process)
            if handle is not None:
                self._handles[process] = handle
                self._selector.register(handle, selectors.EVENT_READ, process)
        self.sees_all = set(self._handles) == set(processes)

    def wait(self, seconds: float) -> None:
        """Sleep."""
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, ProcessId):
                self._drop(key.data)  # told once; it would be told again and again
            else:
                with suppress(BlockingIOError):
                    while self._ear.recv(4096):
                        pass

    def wake(self) -> None:
        """End the sleep, from any thread."""
        with suppress(OSError):  # full: it is awake anyway; closed: nobody sleeps
            self._mouth.send(b".")

    def close(self) -> None:
        """Follow nobody any more."""
        for process in list(self._handles):
            self._drop(process)
        self._selector.close()
        self._ear.close()
        self._mouth.close()

    def _drop(self, process: ProcessId) -> None:
        handle = self._handles.pop(process)
        self._selector.unregister(handle)
        os.close(handle)


def _end_handle(process: ProcessId) -> int | None:
    """A descriptor that becomes readable when the process ends; only Linux has it, also for others' children."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    if process.is_alive():
        return handle
    os.close(handle)  # gone, or another process that was given the number since
    return None
