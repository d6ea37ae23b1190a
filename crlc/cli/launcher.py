"""Launcher that runs one command in several processes: `python -m crlc.cli.launcher N train digits ...`.

The option `--devices N` starts it. It uses the elastic launcher of torchrun, but prints an error once and in one line.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
import uuid

from crlc.errors import UsageError
from crlc.subprocesses import python_command, python_environment

_IS_LAUNCHED, _ERROR_FILE = "CRLC_LAUNCHED", "TORCHELASTIC_ERROR_FILE"
"""Environment variables of the launched processes."""


def launch_processes(count: int) -> int:
    """Run the command of this process in several processes, without its option `--devices`.

    Raises:
        UsageError: the number is not allowed.
    """
    if count < 1:
        raise UsageError(f"devices={count} is not allowed: it must be at least 1.")
    arguments = list(sys.argv[1:])
    index = next(i for i, word in enumerate(arguments) if word.split("=")[0] == "--devices")
    del arguments[index : index + (1 if "=" in arguments[index] else 2)]
    return run_in_processes(count, arguments)


def run_in_processes(count: int, arguments: list[str]) -> int:
    """Run a command in several processes.

    Args:
        count: number of processes.
        arguments: command line of `crlc`, without the program name.

    Returns:
        The exit code.
    """
    launcher = subprocess.Popen(python_command("-m", __name__, str(count), *arguments), env=python_environment())

    def forward_signal(*_: object) -> None:
        # The launcher stops the processes and waits for their checkpoint. On Windows, Ctrl-C reaches all of them by
        # itself, and SIGTERM would kill the launcher at once.
        if os.name == "posix":
            launcher.send_signal(signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward_signal)
    return launcher.wait()


def report_to_launcher(message: str) -> bool:
    """Write an error to the file of the launcher, which prints it once; return False if there is no launcher."""
    file = os.environ.get(_ERROR_FILE)
    if _IS_LAUNCHED not in os.environ or not file:
        return False
    with open(file, "w", encoding="utf-8") as stream:
        json.dump({"message": message, "timestamp": int(time.time())}, stream)
    return True


def _launch(count: int, arguments: list[str]) -> int:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ[_IS_LAUNCHED] = "1"
    if sys.platform == "win32":
        os.environ.setdefault("USE_LIBUV", "0")  # torch for Windows lacks this library, and uses it by default
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-P", "-m", "crlc", *arguments)
    except ChildFailedError as error:
        return _print_failure(error, count)
    except SignalException:
        return 0  # stopped by a signal: the processes wrote their checkpoint
    return 0


def _print_failure(error: object, count: int) -> int:
    """Print the first failure; if a process was killed, the failures of the others are consequences."""
    failures = sorted(error.failures.items(), key=lambda item: item[1].timestamp)  # type: ignore[attr-defined]
    killed = [rank for rank, failure in failures if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM]
    if killed:
        name = signal.Signals(-dict(failures)[killed[0]].exitcode).name
        text = f"Process {killed[0] + 1} of {count} was killed ({name}). To continue, run: crlc resume RUN"
    else:
        message = failures[0][1].message
        text = message if isinstance(message, str) else str(message.get("message", message))
    print(f"error: {text}", file=sys.stderr)
    return 1 if killed else int(max(failures[0][1].exitcode, 1))


if __name__ == "__main__":
    sys.exit(_launch(int(sys.argv[1]), sys.argv[2:]))
