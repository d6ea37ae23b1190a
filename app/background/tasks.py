"""Long operations in threads of the server, with progress and cancellation, shared by all browser windows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from crlc.errors import explain_system_error
from crlc.progress import Progress
from crlc.workspace import get_default_workspace

_log = logging.getLogger(__name__)


class TaskCancelledError(Exception):
    """Raised inside a task after the user cancelled it."""


class BackgroundTask:
    """A long operation in its own thread."""

    def __init__(self, title: str, run: Callable[[BackgroundTask], None]) -> None:
        """Start the thread.

        Args:
            title: name of the operation on screen.
            run: performs the operation. It receives this task, must call `report` regularly, and may call
                `set_cancel_handler`.
        """
        self.title = title
        self.progress: Progress | None = None
        self.error: str | None = None
        self.result: object = None
        """The outcome, stored by `run` for the page that started the task."""
        self.is_cancelled = False
        self._cancel_handler: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """True while the thread is running."""
        return self._thread.is_alive()

    def report(self, progress: Progress) -> None:
        """Store the progress.

        Raises:
            TaskCancelledError: the task was cancelled.
        """
        self.progress = progress
        if self.is_cancelled:
            raise TaskCancelledError

    def set_cancel_handler(self, cancel: Callable[[], None]) -> None:
        """Set the function that ends the operation immediately, such as one that kills its process.

        Raises:
            TaskCancelledError: the task is already cancelled.
        """
        with self._lock:
            self._cancel_handler = cancel
        if self.is_cancelled:
            raise TaskCancelledError

    def cancel(self) -> None:
        """Cancel the operation: immediately if it has a cancel handler, otherwise at its next report."""
        with self._lock:
            self.is_cancelled = True
            handler = self._cancel_handler
        if handler is not None:
            handler()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, by default without a limit."""
        self._thread.join(seconds)

    def _run(self, run: Callable[[BackgroundTask], None]) -> None:
        try:
            run(self)
        except TaskCancelledError:
            pass
        except Exception as error:
            explained = explain_system_error(error, get_default_workspace())
            if explained is not None:
                self.error = None if self.is_cancelled else str(explained)
                return
            _log.exception("%s failed", self.title)
            self.error = f"{self.title} failed: {error!r}. Try again. If it fails again, see the log of the server."


_tasks: dict[str, BackgroundTask] = {}
_tasks_lock = threading.Lock()


def start_task(key: str, title: str, run: Callable[[BackgroundTask], None]) -> BackgroundTask:
    """Start a task, or return the one with this key that is running.

    Args:
        key: identifies the task in all browser windows.
        title: name of the operation on screen.
        run: performs the operation, as in `BackgroundTask`.
    """
    with _tasks_lock:
        task = _tasks.get(key)
        if task is None or not task.is_running:
            _tasks[key] = task = BackgroundTask(title, run)
        return task


def get_task(key: str) -> BackgroundTask | None:
    """Return a task that is running, or has ended and was not dismissed; `None` if there is none."""
    with _tasks_lock:
        return _tasks.get(key)


def list_tasks(prefix: str) -> dict[str, BackgroundTask]:
    """Return the tasks whose keys start with a prefix, in the order in which they were started."""
    with _tasks_lock:
        return {key: task for key, task in _tasks.items() if key.startswith(prefix)}


def dismiss_task(key: str) -> None:
    """Delete a task that has ended; a running one stays."""
    with _tasks_lock:
        task = _tasks.get(key)
        if task is not None and not task.is_running:
            del _tasks[key]
