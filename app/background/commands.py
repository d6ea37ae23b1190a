"""`crlc` commands that the server runs in the background, one at a time, and whose results it caches.

One runner per server serves all browser sessions. A page submits a command again whenever it is drawn; a command that
no page has submitted for a while is dropped before it starts.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.progress import Progress
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.subprocesses import python_command, python_environment
from crlc.workspace import Workspace

_QUEUE_TIMEOUT_SECONDS = 20.0
"""A queued command that no page has submitted for this long does not start."""

_MAX_CACHED_RESULTS = 64
_THREAD_NAME = "crlc-commands"


@dataclass(frozen=True)
class BackgroundCommand:
    """A `crlc` command and everything that its result depends on."""

    workspace: Path
    arguments: tuple[str, ...]
    """Arguments of `crlc`, without --json, --progress and --workspace."""

    version: str = ""
    """Identifies other inputs of the command, such as the version of a dataset."""


def build_dataset_command(workspace: Workspace, dataset: ImageDataset, *arguments: str) -> BackgroundCommand:
    """Return a command whose result is valid for the current version of a dataset."""
    return BackgroundCommand(workspace.root, arguments, f"{dataset.info.uid} {dataset.version}")


def build_timing_command(workspace: Workspace, dataset: ImageDataset, *arguments: str) -> BackgroundCommand:
    """Return a command that estimates the time of a run; finished runs are measurements, so they outdate its result."""
    command = build_dataset_command(workspace, dataset, *arguments)
    return replace(command, version=f"{command.version} {_count_finished_runs(workspace)}")


def _count_finished_runs(workspace: Workspace) -> int:
    count = 0
    for file in workspace.root.glob("runs/*/status.json"):
        with suppress(FileNotFoundError):  # just deleted
            count += _is_finished(file, file.stat().st_mtime_ns)
    return count


@lru_cache(maxsize=1024)
def _is_finished(status_file: Path, _: int) -> bool:
    """Return whether a run is finished; its file is read again only when it has changed."""
    try:
        return RunFolder(status_file.parent).read_status().state is RunState.FINISHED
    except CrlcError:
        return False  # a damaged run is reported elsewhere


class CommandState(StrEnum):
    """State of a command."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """Its process was killed; the result is not cached."""


@dataclass(frozen=True)
class CommandResult:
    """State of a command, with its result once it is done."""

    state: CommandState = CommandState.WAITING
    content: dict[str, Any] | None = None
    """The JSON object that the command printed; only when it is done."""

    error: str = ""
    """Reason of the failure; empty if the command did not fail."""

    progress: Progress | None = None
    """The last report of a running command."""

    @property
    def is_finished(self) -> bool:
        """True if the command is done or failed."""
        return self.state in (CommandState.DONE, CommandState.FAILED)


class CommandRunner:
    """Queue of commands, with one thread that runs them; safe to use from any thread."""

    def __init__(self) -> None:
        """Create an empty queue; the thread starts with the first command."""
        self._changed = threading.Condition()
        self._queue: OrderedDict[BackgroundCommand, float] = OrderedDict()
        """Waiting commands, with the time at which each was submitted last."""
        self._urgent: set[BackgroundCommand] = set()
        self._results: OrderedDict[BackgroundCommand, CommandResult] = OrderedDict()
        self._process: subprocess.Popen[str] | None = None
        self._killed: subprocess.Popen[str] | None = None
        self._running: BackgroundCommand | None = None
        self._thread: threading.Thread | None = None
        self._is_closing = False

    def get_result(self, command: BackgroundCommand) -> CommandResult | None:
        """Return the result of a command; `None` if the command was not started."""
        with self._changed:
            return self._results.get(command)

    def submit(self, command: BackgroundCommand, *, is_urgent: bool = False) -> CommandResult:
        """Return the result so far, and queue the command if it was not started yet.

        Args:
            command: the command.
            is_urgent: True to run it next. A running command that is not urgent is cancelled; the page that needs its
                result submits it again.
        """
        with self._changed:
            result = self._results.get(command)
            if result is not None:
                return result
            self._queue[command] = time.monotonic()
            if is_urgent:
                self._urgent.add(command)
                self._queue.move_to_end(command, last=False)
                if self._running not in self._urgent:
                    self._kill()
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run_queue, name=_THREAD_NAME, daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return CommandResult()

    def forget(self, command: BackgroundCommand) -> None:
        """Delete a cached result, so that the command runs again when it is submitted."""
        with self._changed:
            if self._results.get(command, CommandResult()).state != CommandState.RUNNING:
                self._results.pop(command, None)

    def cancel(self, command: BackgroundCommand) -> bool:
        """Remove a command from the queue, or kill its process; return whether a process was killed."""
        with self._changed:
            self._queue.pop(command, None)
            is_running = self._running == command and self._process is not None
            if is_running:
                self._kill()
            return is_running

    def wait(self, command: BackgroundCommand, seconds: float) -> CommandResult:
        """Submit a command, and wait at most this many seconds until it is finished."""
        self.submit(command)
        with self._changed:
            self._changed.wait_for(lambda: self._results.get(command, CommandResult()).is_finished, seconds)
            return self._results.get(command, CommandResult())

    def close(self) -> None:
        """Kill the running command and end the thread."""
        with self._changed:
            self._is_closing = True
            self._kill()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _kill(self) -> None:
        """Kill the process of the running command, if there is one; called with the lock."""
        if self._process is not None:
            self._killed = self._process  # Windows has no exit code that tells a killed process from a failed one
            self._process.kill()

    # ---- run by the thread

    def _run_queue(self) -> None:
        while (command := self._wait_for_next()) is not None:
            result = self._run(command)
            self._store(command, result)
            if result.state == CommandState.CANCELLED:
                self.forget(command)

    def _wait_for_next(self) -> BackgroundCommand | None:
        with self._changed:
            while not self._is_closing:
                oldest = time.monotonic() - _QUEUE_TIMEOUT_SECONDS
                while self._queue:
                    command, submitted = self._queue.popitem(last=False)
                    if submitted >= oldest and command not in self._results:
                        self._results[command] = CommandResult(CommandState.RUNNING)
                        return command
                self._changed.wait()
            return None

    def _store(self, command: BackgroundCommand, result: CommandResult) -> None:
        with self._changed:
            self._results[command] = result
            self._results.move_to_end(command)
            while len(self._results) > _MAX_CACHED_RESULTS:
                self._results.popitem(last=False)
            self._changed.notify_all()

    def _run(self, command: BackgroundCommand) -> CommandResult:
        # The result goes to a file: a pipe holds 4 KB on Windows, and the process would wait for a reader of the rest.
        with tempfile.TemporaryFile() as output:
            return self._run_with_output(command, output)

    def _run_with_output(self, command: BackgroundCommand, output: IO[bytes]) -> CommandResult:
        options = ["--json", "--progress", "json", "--workspace", str(command.workspace)]
        try:
            process = subprocess.Popen(
                python_command("-m", "crlc", *command.arguments, *options),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=python_environment(),
            )
        except OSError as failure:
            return CommandResult(CommandState.FAILED, error=f"The command could not be started: {failure}.")
        with self._changed:
            self._process, self._running = process, command
            if self._is_closing:
                self._kill()
        error = ""
        assert process.stderr is not None
        for line in process.stderr:
            report = parse_report(line)
            if isinstance(report, Progress):
                self._store(command, CommandResult(CommandState.RUNNING, progress=report))
            elif report is not None:
                error = report
        process.wait()
        process.stderr.close()
        with self._changed:
            self._process = self._running = None
            is_cancelled = self._killed is process
        if is_cancelled:
            return CommandResult(CommandState.CANCELLED)
        try:
            output.seek(0)
            return CommandResult(CommandState.DONE, json.loads(output.read()))
        except ValueError:
            return CommandResult(CommandState.FAILED, error=error or _describe_end(process.returncode))


def _describe_end(code: int) -> str:
    """Describe a process that ended without a result and without an error."""
    if code < 0:
        return "The process was killed, perhaps for lack of memory. Close other programs and try again."
    return "The command printed no result."


def parse_report(line: str) -> Progress | str | None:
    """Return the progress or the error in a line of stderr; `None` for any other line, such as a warning."""
    try:
        content = json.loads(line)
        return Progress.from_json(content["progress"]) if "progress" in content else str(content["error"])
    except (ValueError, TypeError, KeyError):
        return None


_runners: list[CommandRunner] = []
_runners_lock = threading.Lock()


def get_command_runner() -> CommandRunner:
    """Return the runner of this server."""
    with _runners_lock:
        if not _runners:
            _runners.append(CommandRunner())
        return _runners[0]


def close_command_runner() -> None:
    """Close the runner of this server; called when the server stops."""
    with _runners_lock:
        while _runners:
            _runners.pop().close()
