"""Questions that take a `crlc` command some seconds: asked in the background, one at a time, answers remembered.

One object per server serves all browser sessions. Who asks again and again is served; a question that nobody has asked
for a while is dropped before it is begun.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_PATIENCE_SECONDS = 20.0
_ANSWERS_KEPT = 64
_ERROR = "error: "


@dataclass(frozen=True)
class Question:
    """A command whose answer is wanted."""

    workspace: Path
    arguments: tuple[str, ...]
    """Of `crlc`, without --json and --workspace."""

    about: str = ""
    """What the answer depends on besides, such as the version of a data set."""


@dataclass(frozen=True)
class Answer:
    """What is known so far."""

    state: str = "waiting"
    """waiting, running, done, failed, or dropped, which is soon forgotten."""

    content: dict[str, Any] | None = None
    """What the command printed, once it is done."""

    text: str = ""
    """How far it is, or why it failed."""


class Measuring:
    """Asks questions; for any number of threads."""

    def __init__(self) -> None:
        """The thread is started with the first question."""
        self._changed = threading.Condition()
        self._wanted: OrderedDict[Question, float] = OrderedDict()
        self._answers: OrderedDict[Question, Answer] = OrderedDict()
        self._process: subprocess.Popen[str] | None = None
        self._running: Question | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    def known(self, question: Question) -> Answer | None:
        """The answer if there is one already; nothing is begun."""
        with self._changed:
            return self._answers.get(question)

    def ask(self, question: Question) -> Answer:
        """The answer as far as it is known; asked for the first time, it is set to work on."""
        with self._changed:
            answer = self._answers.get(question)
            if answer is not None:
                return answer
            self._wanted[question] = time.monotonic()
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._work, name="crlc-measuring", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return Answer()

    def forget(self, question: Question) -> None:
        """Ask it anew the next time, as after a failure."""
        with self._changed:
            if self._answers.get(question, Answer()).state != "running":
                self._answers.pop(question, None)

    def drop(self, question: Question) -> bool:
        """Nobody wants to know any more: a command that works on it is ended; returns whether one did."""
        with self._changed:
            self._wanted.pop(question, None)
            is_running = self._running == question and self._process is not None
            if is_running and self._process is not None:
                self._process.kill()
            return is_running

    def wait(self, question: Question, seconds: float) -> Answer:
        """The answer, waited for."""
        self.ask(question)
        with self._changed:
            self._changed.wait_for(lambda: self._has_ended(question), seconds)
            return self._answers.get(question, Answer())

    def close(self) -> None:
        """End the work, and the command that runs."""
        with self._changed:
            self._closing = True
            if self._process is not None:
                self._process.kill()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    # ---- the thread

    def _has_ended(self, question: Question) -> bool:
        return self._answers.get(question, Answer()).state in ("done", "failed")

    def _work(self) -> None:
        while (question := self._next()) is not None:
            answer = self._asked(question)
            self._note(question, answer)
            if answer.state == "dropped":
                self.forget(question)

    def _next(self) -> Question | None:
        with self._changed:
            while not self._closing:
                oldest = time.monotonic() - _PATIENCE_SECONDS
                while self._wanted:
                    question, asked = self._wanted.popitem(last=False)
                    if asked >= oldest and question not in self._answers:
                        self._answers[question] = Answer("running")
                        return question
                self._changed.wait()
            return None

    def _note(self, question: Question, answer: Answer) -> None:
        with self._changed:
            self._answers[question] = answer
            self._answers.move_to_end(question)
            while len(self._answers) > _ANSWERS_KEPT:
                self._answers.popitem(last=False)
            self._changed.notify_all()

    def _asked(self, question: Question) -> Answer:
        command = [sys.executable, "-P", "-m", "crlc", *question.arguments]
        paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
        try:
            process = subprocess.Popen(
                [*command, "--json", "--workspace", str(question.workspace)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            )
        except OSError as error:
            return Answer("failed", text=f"It could not be started: {error}.")
        with self._changed:
            self._process, self._running = process, question
            if self._closing:
                process.kill()
        error = ""
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:  # the result is one line, which fits into its pipe until this has ended
            if line.startswith(_ERROR):
                error = line.removeprefix(_ERROR).strip()
            elif line.strip():
                self._note(question, Answer("running", text=line.strip()))
        printed = process.stdout.read()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        with self._changed:
            self._process = self._running = None
        if process.returncode == -signal.SIGKILL:
            return Answer("dropped")
        try:
            return Answer("done", json.loads(printed))
        except ValueError:
            return Answer("failed", text=error or "The command ended without an answer.")


_shared: list[Measuring] = []
_shared_lock = threading.Lock()


def measuring() -> Measuring:
    """The one of this server."""
    with _shared_lock:
        if not _shared:
            _shared.append(Measuring())
        return _shared[0]


def close_measuring() -> None:
    """For the end of the server."""
    with _shared_lock:
        while _shared:
            _shared.pop().close()
