"""`python -m crlc.jobs.starter train ...`: waits for a word on standard input, then is `python -m crlc train ...`.

Whoever starts it first writes down its number, then gives the word. So a training that nobody knows of cannot be:
if the starter dies before that, standard input ends without the word, and so does this process.
"""

from __future__ import annotations

import os
import runpy
import sys


def main() -> None:
    """Wait, then run the command line in this process."""
    if sys.stdin.buffer.readline() != b"begin\n":
        raise SystemExit(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    sys.argv[0] = "crlc"
    runpy.run_module("crlc", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
