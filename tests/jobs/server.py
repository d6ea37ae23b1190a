"""A server for tests: owns the queue of a workspace, adds a training, and lives until it is killed.

`python server.py WORKSPACE [ARGUMENT OF crlc train ...]`: prints "ready" once it owns the queue and the training, if
there is any, has said the name of its run. With "unspoken" as the only argument it starts a process and dies before it
could write down that it did; it prints the process's number.
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
        job = queue.train(arguments) if arguments else None
        assert queue.wait_for(lambda _: queue.is_owner and (job is None or queue.job(job.id).run), 60)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    main()
