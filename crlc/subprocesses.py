"""Child processes that run this package, and process identities that stay valid when the program restarts.

`multiprocessing` is not used: it imports the main module of the calling program again, which in Streamlit is the page
itself, and it needs `if __name__ == "__main__"` in scripts and notebooks.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import psutil

from crlc.installation import PACKAGE_ROOT, is_found_by_python

_START_TIME_TOLERANCE_SECONDS = 1.0


def avoid_spinning_threads() -> None:
    """Let OpenMP threads of this process and its children sleep while they wait; call it before torch is imported.

    Threads that spin while they wait take the cores from other programs, and from each other: beside other work,
    training was twice as fast without spinning.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def count_available_cores() -> int:
    """Return the number of CPU cores that this process may use; the computer may have more."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def python_command(*arguments: str) -> list[str]:
    """Return the command that runs this interpreter with these arguments, such as `"-m", "crlc"`."""
    # -P: a numpy.py or PIL.py in the current folder of the user must not be imported.
    return [sys.executable, "-P", *arguments]


def python_environment(defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return environment variables with which a child process finds this package from any folder.

    Args:
        defaults: variables for the child process, unless the user has set them.
    """
    # site-packages must not be on PYTHONPATH: it would come before the standard library.
    paths = ["" if is_found_by_python() else str(PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]
    # On Windows, pipes and files would have the encoding of the system, which has no letters of other languages.
    return {"PYTHONUTF8": "1", **(defaults or {}), **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def start_python(
    arguments: Sequence[str],
    *,
    stdout: IO[Any] | int,
    stderr: IO[Any] | int,
    defaults: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a Python process in its own session, so that Ctrl-C and closing the terminal reach only the caller.

    Args:
        arguments: arguments of the interpreter, such as `["-m", "crlc.jobs.starter"]`.
        stdout: receives the standard output.
        stderr: receives the standard error.
        defaults: environment variables for the child process, unless the user has set them.

    Returns:
        The process, with a pipe as its standard input. The pipe closes when the caller is killed, which tells the
        child process to exit.

    Raises:
        OSError: the process cannot be started.
    """
    flags = 0 if os.name == "posix" else subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW  # type: ignore[attr-defined,unused-ignore]
    return subprocess.Popen(
        python_command(*arguments),
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=python_environment(defaults),
        start_new_session=True,
        creationflags=flags,
    )


def read_last_line(log: IO[bytes]) -> str:
    """Return the last line of the file that a child process wrote to, or an empty text when there is none."""
    with suppress(OSError, ValueError):
        log.seek(0)
        lines = log.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""
    return ""


@dataclass(frozen=True)
class ProcessId:
    """Identity of a process on this computer: its id and, because systems reuse ids, its start time."""

    pid: int
    started: float
    """In seconds since 1970."""

    @classmethod
    def from_pid(cls, pid: int) -> ProcessId:
        """Return the identity of the process that has this id now."""
        return cls(pid, psutil.Process(pid).create_time())

    def is_alive(self) -> bool:
        """Return whether the process still runs, and the id has not been given to another process."""
        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.started) < _START_TIME_TOLERANCE_SECONDS
            return is_same and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, ValueError, OverflowError):  # negative or too large: from a damaged file
            return False

    def terminate(self) -> None:
        """Send SIGTERM to the process, and to its group if it leads one; do nothing if it no longer exists."""
        if not self.is_alive():
            return
        with suppress(OSError, psutil.Error):
            # A process that `start_python` started leads its group; another may share the group of a user's script.
            if os.name == "posix" and os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGTERM)
            else:
                psutil.Process(self.pid).terminate()

    def kill(self) -> None:
        """Kill the process and all its descendants immediately; do nothing if it no longer exists."""
        if not self.is_alive():
            return
        with suppress(psutil.Error):
            process = psutil.Process(self.pid)
            # Not the group: some processes of a distributed training run in their own sessions.
            for one in (*process.children(recursive=True), process):
                with suppress(psutil.Error):
                    one.kill()
