"""Job queues of this process: one per workspace, shared by all pages and browser sessions."""

from __future__ import annotations

import threading
from pathlib import Path

from crlc.errors import CrlcError
from crlc.jobs.queue import JobQueue
from crlc.workspace.workspace import Workspace

_queues: dict[Path, JobQueue] = {}
_lock = threading.Lock()


def get_queue(workspace: Workspace) -> JobQueue:
    """Return the queue of a workspace; the first call starts it."""
    with _lock:
        if workspace.root not in _queues:
            _queues[workspace.root] = JobQueue(workspace).start()
        return _queues[workspace.root]


def close_queues() -> list[str]:
    """Close all queues without stopping running jobs; return one sentence per queue about its pending jobs."""
    with _lock:
        messages = []
        for queue in _queues.values():
            try:
                messages.append(queue.describe_pending_jobs())
            except CrlcError as error:
                messages.append(str(error))
            queue.close()
        _queues.clear()
        return messages
