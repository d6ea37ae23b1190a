"""State of a job whose process has ended, from its announcement, log and run."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from crlc.files import write_json
from crlc.jobs.job import Job, JobState
from crlc.jobs.status import (
    ANNOUNCEMENT_FILE,
    LOG_FILE,
    ExternalRuns,
    describe_pending_jobs,
    find_error,
    get_run_folder,
    refresh_job,
)
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.subprocesses import ProcessId

ENDED = ProcessId(psutil.Process().pid, 1.0)  # this process started later, so the one of 1970 has ended


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "jobs" / "7").mkdir(parents=True)
    return Job("7", ("train", "set"), "set", "app", 0.0, state=JobState.RUNNING, process=ENDED, started=1.0)


@pytest.fixture
def run(job: Job, tmp_path: Path) -> RunFolder:
    """Return the run that the process of the job announced."""
    run = get_run_folder(tmp_path, "run-1")
    run.path.mkdir(parents=True)
    run.write_metadata({"dataset": "set", "dataset_uid": "u", "manifest_version": 1, "settings": {}, "device": "cpu"})
    write_json(tmp_path / "jobs" / job.id / ANNOUNCEMENT_FILE, {"kind": "announcement", "version": 1, "run": "run-1"})
    return run


def test_refresh_job_without_a_run_is_interrupted_stopped_or_failed(job: Job, tmp_path: Path):
    found = refresh_job(job, tmp_path)
    assert found.state is JobState.INTERRUPTED
    assert "not started" in found.error
    assert refresh_job(replace(job, stop_requested_at=2.0), tmp_path).state is JobState.STOPPED
    (tmp_path / "jobs" / "7" / LOG_FILE).write_text("error: first\nEpoch 1\nerror: last\nTraining ended\n")
    found = refresh_job(job, tmp_path)
    assert (found.state, found.error) == (JobState.FAILED, "last")


@pytest.mark.parametrize(
    ("state", "message", "expected"),
    [
        (RunState.FINISHED, "", JobState.FINISHED),
        (RunState.STOPPED, "", JobState.STOPPED),
        (RunState.FAILED, "The loss is not finite.", JobState.FAILED),
    ],
)
def test_refresh_job_copies_the_final_state_of_its_run(
    job: Job, run: RunFolder, tmp_path: Path, state, message, expected
):
    run.write_status(state, message=message)
    found = refresh_job(job, tmp_path)
    assert (found.run, found.device, found.state, found.error) == ("run-1", "cpu", expected, message)


def test_refresh_job_of_a_killed_process_is_interrupted(job: Job, run: RunFolder, tmp_path: Path):
    run.write_status(RunState.RUNNING)
    status = run.path / "status.json"
    status.write_text(status.read_text().replace(str(psutil.Process().create_time()), "1.0"))  # its process has ended
    found = refresh_job(job, tmp_path)
    assert found.state is JobState.INTERRUPTED
    assert found.error == run.read_status().message
    # The status of an earlier process says nothing about a resumed run.
    run.write_status(RunState.STOPPED)
    assert refresh_job(replace(job, started=time.time() + 60), tmp_path).state is JobState.INTERRUPTED


def test_find_error_returns_the_last_error_of_a_log(tmp_path: Path):
    assert find_error(tmp_path / "missing") == ""
    log = tmp_path / "log.txt"
    log.write_bytes(b"error: too far from the end\n" + b"x" * (1 << 16))
    assert find_error(log) == ""


def test_external_runs_are_found_when_their_status_changes(run: RunFolder, tmp_path: Path):
    external = ExternalRuns(tmp_path)
    assert external.find_jobs() == {}
    run.write_status(RunState.RUNNING)
    (job,) = external.find_jobs().values()
    assert (job.run, job.title, job.is_external, job.is_running) == ("run-1", "set", True, True)
    assert external.find_jobs() == {}
    run.write_status(RunState.FINISHED)
    assert external.find_jobs() == {}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (RunState.RUNNING, "1 run continues training"),
        (RunState.FINISHED, "No training is running."),
        (RunState.STOPPED, "No training is running."),
    ],
)
def test_pending_jobs_leave_out_a_run_that_is_final_while_its_process_ends(
    job: Job, run: RunFolder, tmp_path: Path, state: RunState, expected: str
):
    """The process of the job lives: it is that of the test."""
    alive = replace(job, process=ProcessId.from_pid(os.getpid()))
    run.write_status(state)
    assert describe_pending_jobs([alive], tmp_path, is_owner=True).startswith(expected)


def test_pending_jobs_contain_a_resumed_run_with_the_status_of_its_last_process(
    job: Job, run: RunFolder, tmp_path: Path
):
    run.write_status(RunState.STOPPED)
    resumed = replace(job, process=ProcessId.from_pid(os.getpid()), started=time.time() + 60)
    assert describe_pending_jobs([resumed], tmp_path, is_owner=True).startswith("1 run continues training")
