"""The one queue of a server: every page and every browser session of a process gets the same."""

from __future__ import annotations

import threading
from pathlib import Path

from crlc.errors import CrlcError
from crlc.jobs.queue import JobQueue
from crlc.workspace.workspace import Workspace

_queues: dict[Path, JobQueue] = {}
_lock = threading.Lock()


def queue_of(workspace: Workspace) -> JobQueue:
    """The queue of a workspace, started when it is first asked for."""
    with _lock:
        if workspace.root not in _queues:
            _queues[workspace.root] = JobQueue(workspace).start()
        return _queues[workspace.root]


def close_queues() -> list[str]:
    """Close all; returns what each leaves behind, in words. Trainings go on."""
    with _lock:
        said = []
        for queue in _queues.values():
            try:
                said.append(queue.summary())
            except CrlcError as error:
                said.append(str(error))
            queue.close()
        _queues.clear()
        return said
