"""A server for tests: `python -m tests.jobs.server WORKSPACE` owns the queue, prints "ready", lives until killed.

With "unspoken" behind it, it starts a process, prints its number, and dies before it has written it down.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from crlc.jobs import JobQueue
from crlc.jobs.process import Child
from crlc.workspace import Workspace


def main() -> None:
    root, arguments = Path(sys.argv[1]), sys.argv[2:]
    if arguments == ["unspoken"]:
        child = Child(["train", "set", "--workspace", str(root)], root / "log.txt")
        sys.stdout.write(f"{child.process.pid}\n")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    with JobQueue(Workspace(root)) as queue:
        assert queue.wait_for(lambda _: queue.is_owner, 60)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    main()
