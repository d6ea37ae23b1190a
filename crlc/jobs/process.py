"""Training processes of the queue, which outlive the app: how they are started, watched and reaped."""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from crlc.subprocesses import ProcessId, start_python

# Child processes that have not been reaped. Global, because a queue may be closed and opened again in the meantime.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


class ChildProcess:
    """A started process that waits for the signal to run its command (see `crlc.jobs.starter`)."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        """Start the process in its own session, so that neither Ctrl-C nor a closed terminal stops the training.

        Args:
            arguments: command line of `crlc`.
            log: file that receives the output of the process.

        Raises:
            OSError: the process cannot be started.
        """
        with log.open("ab") as stream:
            self._popen = start_python(
                ["-m", "crlc.jobs.starter", *arguments],
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        _CHILDREN[self._popen.pid] = self._popen
        # The process has not been reaped, so no other process can have its id yet.
        self.process = ProcessId.from_pid(self._popen.pid)

    def signal_start(self) -> None:
        """Signal the child process to run its command."""
        assert self._popen.stdin is not None
        with suppress(OSError):  # it was killed in the meantime; the next poll notices
            self._popen.stdin.write(b"begin\n")
            self._popen.stdin.flush()
        self.release()

    def release(self) -> None:
        """Close the pipe to the process; without the signal to start, it exits."""
        assert self._popen.stdin is not None
        with suppress(OSError):
            self._popen.stdin.close()


def reap_children() -> None:
    """Collect the exit codes of child processes that have exited, so that they do not remain zombies."""
    for pid, popen in list(_CHILDREN.items()):
        if popen.poll() is not None:
            del _CHILDREN[pid]


class ProcessWatcher:
    """Waits until a watched process ends, another thread calls `wake`, or a timeout passes."""

    def __init__(self) -> None:
        """Create a watcher of no processes."""
        self._selector = selectors.DefaultSelector()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._selector.register(self._wake_receiver, selectors.EVENT_READ)
        self._handles: dict[ProcessId, int] = {}
        self.detects_every_end = True
        """True if `wait` detects the end of every watched process; otherwise the caller has to poll."""

    def watch_only(self, processes: Collection[ProcessId]) -> None:
        """Watch these processes, and no others."""
        for process in set(self._handles) - set(processes):
            self._drop(process)
        for process in set(processes) - set(self._handles):
            handle = _open_handle(process)
            if handle is not None:
                self._handles[process] = handle
                self._selector.register(handle, selectors.EVENT_READ, process)
        self.detects_every_end = set(self._handles) == set(processes)

    def wait(self, seconds: float) -> None:
        """Wait for an event, but at most this many seconds."""
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, ProcessId):
                self._drop(key.data)  # the handle stays readable: every later call would return immediately
            else:
                with suppress(BlockingIOError):
                    while self._wake_receiver.recv(4096):
                        pass

    def wake(self) -> None:
        """Make `wait` return; may be called from any thread."""
        with suppress(OSError):  # buffer full: `wait` returns anyway; socket closed: no thread waits
            self._wake_sender.send(b".")

    def close(self) -> None:
        """Release all handles."""
        for process in list(self._handles):
            self._drop(process)
        self._selector.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    def _drop(self, process: ProcessId) -> None:
        handle = self._handles.pop(process)
        self._selector.unregister(handle)
        os.close(handle)


def _open_handle(process: ProcessId) -> int | None:
    """Return a file descriptor that becomes readable when the process ends, or `None` (always on macOS and Windows)."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    if process.is_alive():
        return handle
    os.close(handle)  # the process is gone, or another one has its id
    return None
