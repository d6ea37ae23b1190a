"""One command in several processes: `python -m crlc.cli.processes N train digits ...`, which `--devices N` starts.

As torchrun does it and with its means, but what goes wrong is said once and in one line.
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

_LAUNCHED, _ERROR_FILE = "CRLC_LAUNCHED", "TORCHELASTIC_ERROR_FILE"


def run_in_processes(count: int, arguments: list[str]) -> int:
    """Run the command with these arguments in so many processes; returns its exit code."""
    launcher = subprocess.Popen([sys.executable, "-m", __name__, str(count), *arguments])

    def pass_on(*_: object) -> None:
        launcher.send_signal(signal.SIGTERM)  # it tells the processes, and waits for their checkpoint

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    return launcher.wait()


def tell_launcher(message: str) -> bool:
    """Leave an error for whoever started this process, who says it once; false if nobody did."""
    file = os.environ.get(_ERROR_FILE)
    if _LAUNCHED not in os.environ or not file:
        return False
    with open(file, "w", encoding="utf-8") as stream:
        json.dump({"message": message, "timestamp": int(time.time())}, stream)
    return True


def _launch(count: int, arguments: list[str]) -> int:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ[_LAUNCHED] = "1"
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
        elastic_launch(config, sys.executable)("-m", "crlc", *arguments)
    except ChildFailedError as error:
        return _tell_failure(error, count)
    except SignalException:
        return 0  # stopped as asked: the processes wrote their checkpoint
    return 0


def _tell_failure(error: object, count: int) -> int:
    """Say what went wrong first; when a process was killed the others fail for want of it."""
    failures = sorted(error.failures.items(), key=lambda one: one[1].timestamp)  # type: ignore[attr-defined]
    killed = [rank for rank, failure in failures if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM]
    if killed:
        name = signal.Signals(-dict(failures)[killed[0]].exitcode).name
        text = f"Process {killed[0] + 1} of {count} was killed ({name}). Go on from its checkpoint: crlc resume RUN"
    else:
        message = failures[0][1].message
        text = message if isinstance(message, str) else str(message.get("message", message))
    print(f"error: {text}", file=sys.stderr)
    return 1 if killed else int(max(failures[0][1].exitcode, 1))


if __name__ == "__main__":
    sys.exit(_launch(int(sys.argv[1]), sys.argv[2:]))
