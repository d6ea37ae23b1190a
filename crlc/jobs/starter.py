"""Entry point of training processes: waits for the signal to start, then runs the command line of `crlc`.

`python -m crlc.jobs.starter train ...` waits for a line on standard input. The queue sends it after it has written the
process id to the job file, so that no process trains without being listed. If the queue is killed before that, standard
input closes, and this process exits.
"""

from __future__ import annotations

import os
import runpy
import sys


def main() -> None:
    """Wait for the signal, then run the command line in this process."""
    if sys.stdin.buffer.readline() != b"begin\n":
        raise SystemExit(1)
    null_device = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_device, sys.stdin.fileno())
    os.close(null_device)
    sys.argv[0] = "crlc"
    runpy.run_module("crlc", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
