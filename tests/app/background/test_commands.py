"""Commands that the server runs in the background."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.background.commands import BackgroundCommand, CommandRunner, CommandState, parse_report
from crlc.progress import Progress

WAIT_SECONDS = 60
REPORT = Progress("Decoding", 430, 1000, 12.5)
PID_FILE = "pid"
ENDLESS = f"""
import os, pathlib, sys, time
pathlib.Path({PID_FILE!r}).write_text(str(os.getpid()))
print('{json.dumps({"progress": REPORT.to_json()})}', file=sys.stderr, flush=True)
time.sleep(3600)
"""
"""A command that reports once, and then runs until it is killed."""


@pytest.fixture
def runner() -> Iterator[CommandRunner]:
    runner = CommandRunner()
    yield runner
    runner.close()
    assert not any(thread.name == "crlc-commands" for thread in threading.enumerate())


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> BackgroundCommand:
    """Replace `crlc train` by an endless command; other commands are real."""
    from app.background import commands

    real = commands.python_command
    script = ENDLESS.replace(repr(PID_FILE), repr(str(tmp_path / PID_FILE)))
    monkeypatch.setattr(
        commands,
        "python_command",
        lambda *arguments: [sys.executable, "-c", script] if "train" in arguments else real(*arguments),
    )
    return BackgroundCommand(tmp_path / "workspace", ("train",))


def wait_for_progress(runner: CommandRunner, command: BackgroundCommand) -> Progress:
    """Submit a command, and wait until it has reported."""
    runner.submit(command)

    def has_reported() -> bool:
        result = runner.get_result(command)
        return result is not None and result.progress is not None

    with runner._changed:
        assert runner._changed.wait_for(has_reported, WAIT_SECONDS)
    return runner.get_result(command).progress


def test_runner_caches_results_and_explains_failures(runner: CommandRunner, tmp_path: Path):
    command = BackgroundCommand(tmp_path, ("datasets",))
    assert runner.get_result(command) is None
    assert runner.submit(command).content is None
    result = runner.wait(command, WAIT_SECONDS)
    assert (result.state, result.content["datasets"]) == (CommandState.DONE, [])
    assert runner.submit(command) is result
    failing = BackgroundCommand(tmp_path, ("dataset", "nothing"))
    failed = runner.wait(failing, WAIT_SECONDS)
    assert (failed.state, failed.content) == (CommandState.FAILED, None)
    assert "'nothing'" in failed.error
    assert runner.get_result(failing) is failed
    runner.forget(failing)
    assert runner.get_result(failing) is None


def test_runner_reports_progress_and_can_cancel_a_command(
    runner: CommandRunner, endless: BackgroundCommand, tmp_path: Path
):
    waiting = BackgroundCommand(tmp_path, ("datasets",))
    assert wait_for_progress(runner, endless) == REPORT
    assert runner.submit(waiting).state == CommandState.WAITING
    assert not runner.cancel(waiting)  # it was not running
    assert runner.cancel(endless)
    assert runner.wait(waiting, WAIT_SECONDS).state == CommandState.DONE  # submitted again
    assert runner.get_result(endless) is None  # not cached, so that it can run again
    assert not runner.cancel(waiting)
    assert runner.get_result(waiting).state == CommandState.DONE  # a result stays


def test_runner_reports_a_process_that_the_system_killed(
    runner: CommandRunner, endless: BackgroundCommand, tmp_path: Path
):
    """It is not cancelled: the page did not request it, and memory may be short."""
    wait_for_progress(runner, endless)
    psutil.Process(int((tmp_path / PID_FILE).read_text())).kill()
    result = runner.wait(endless, WAIT_SECONDS)
    assert result.state == CommandState.FAILED
    assert "memory" in result.error


def test_close_kills_the_running_command(runner: CommandRunner, endless: BackgroundCommand, tmp_path: Path):
    wait_for_progress(runner, endless)
    pid = int((tmp_path / PID_FILE).read_text())
    assert psutil.pid_exists(pid)
    closing = threading.Thread(target=runner.close, daemon=True)
    closing.start()
    closing.join(WAIT_SECONDS)
    assert not closing.is_alive()
    assert not psutil.pid_exists(pid)
    runner.submit(BackgroundCommand(tmp_path, ("datasets",)))
    assert runner.get_result(BackgroundCommand(tmp_path, ("datasets",))) is None  # a closed runner starts nothing


@pytest.mark.parametrize(
    ("line", "report"),
    [
        (json.dumps({"progress": REPORT.to_json()}), REPORT),
        ('{"error": "No dataset is named \'x\'."}', "No dataset is named 'x'."),
        ("UserWarning: slow", None),
        ("{}", None),
        ("3", None),
        ('{"progress": {"stage": "Decoding"}}', None),
    ],
)
def test_parse_report_reads_progress_and_errors_only(line: str, report: Progress | str | None):
    assert parse_report(line) == report


def test_urgent_command_does_not_wait_for_a_running_one(
    runner: CommandRunner, endless: BackgroundCommand, tmp_path: Path
):
    wait_for_progress(runner, endless)
    urgent = BackgroundCommand(tmp_path / "workspace", ("datasets",))
    runner.submit(urgent, is_urgent=True)
    assert runner.wait(urgent, WAIT_SECONDS).state == CommandState.DONE
    assert runner.get_result(endless) is None  # cancelled, and not cached
    wait_for_progress(runner, endless)  # submitted again, it runs again
