"""Jobs: choice of the next job, removal of old jobs, and their entries in the job file."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from crlc.errors import UsageError
from crlc.jobs.job import Job, JobState, create_job, drop_oldest_jobs, extract_device_options, find_startable_job
from crlc.subprocesses import ProcessId


def make_jobs(*states_and_devices: tuple[str, str]) -> list[Job]:
    return [
        Job(str(number), ("train", "set"), "set", "app", 0.0, device=device, state=JobState(state))
        for number, (state, device) in enumerate(states_and_devices)
    ]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([], None),
        ([("finished", "cpu")], None),
        ([("waiting", "auto"), ("waiting", "auto")], "0"),
        ([("running", "cpu"), ("waiting", "cpu")], None),
        ([("running", "cpu"), ("waiting", "cuda")], "1"),
        ([("running", "cpu"), ("waiting", "auto")], None),  # auto may mean the CPU
        ([("running", "auto"), ("waiting", "cuda")], None),  # its device is unknown yet
        ([("running", "cuda"), ("waiting", "cuda"), ("waiting", "cpu")], "2"),
        ([("running", "cuda"), ("waiting", "auto"), ("waiting", "cpu")], None),  # no job is overtaken
        ([("failed", "cpu"), ("cancelled", "cpu"), ("interrupted", "cpu"), ("waiting", "cpu")], "3"),
    ],
)
def test_find_startable_job_returns_the_first_whose_device_is_free(jobs, expected: str | None):
    found = find_startable_job(make_jobs(*jobs))
    assert (found and found.id) == expected


def test_drop_oldest_jobs_keeps_waiting_and_running_ones():
    jobs = make_jobs(*[("finished", "cpu")] * 3, ("waiting", "cpu"), ("running", "cpu"))
    jobs[:3] = [replace(job, ended=ended) for job, ended in zip(jobs[:3], (30.0, 10.0, 20.0), strict=True)]
    assert [job.id for job in drop_oldest_jobs(jobs, 2)] == ["0", "2", "3", "4"]
    assert [job.id for job in drop_oldest_jobs(jobs, 0)] == ["3", "4"]
    assert drop_oldest_jobs(jobs, 3) == jobs


@pytest.mark.parametrize(
    ("arguments", "device"),
    [
        (["train", "set"], "auto"),
        (["train", "set", "--device", "cpu"], "cpu"),
        (["resume", "x", "--device=mps"], "mps"),
    ],
)
def test_create_job_reads_the_device_from_the_arguments(arguments, device: str):
    assert create_job(arguments, "", "").device == device


def test_extract_device_options_returns_only_those():
    arguments = ["train", "set", "--devices=2", "--epochs", "3", "--device", "cuda", "--set", "x=1"]
    assert extract_device_options(arguments) == ["--devices", "2", "--device", "cuda"]


@pytest.mark.parametrize("option", ["--workspace=/elsewhere", "--announce", "--dry-run"])
def test_create_job_refuses_options_of_the_queue(option: str):
    with pytest.raises(UsageError, match=option.partition("=")[0]):
        create_job(["train", "set", option], "", "")


def test_job_round_trips_through_json():
    job = replace(
        create_job(["train", "séts/ü"], "t", "app"), process=ProcessId(7, 1.25), state=JobState.RUNNING, run="r"
    )
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job
    with pytest.raises(ValueError, match="dreaming"):
        Job.from_json({**job.to_json(), "state": "dreaming"})


def test_job_json_keys_are_those_of_earlier_versions():
    job = replace(create_job(["train", "set"], "set", "app"), stop_requested_at=5.0, is_kill_requested=True)
    written = job.to_json()
    assert (written["asked_by"], written["stop_asked"], written["kill_asked"]) == ("app", 5.0, True)
    assert written["signalled"] is False
