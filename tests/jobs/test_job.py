"""Which job may start, what is kept, and what a job is on disk."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from crlc.errors import UsageError
from crlc.jobs.job import Job, new_job, place_options, startable, without_old
from crlc.jobs.process import ProcessId


def jobs_of(*states_and_devices: tuple[str, str]) -> list[Job]:
    return [
        Job(str(number), ("train", "set"), "set", "app", 0.0, device=device, state=state)
        for number, (state, device) in enumerate(states_and_devices)
    ]


@pytest.mark.parametrize(
    ("jobs", "which"),
    [
        ([], None),
        ([("finished", "cpu")], None),
        ([("waiting", "auto"), ("waiting", "auto")], "0"),
        ([("running", "cpu"), ("waiting", "cpu")], None),
        ([("running", "cpu"), ("waiting", "cuda")], "1"),
        ([("running", "cpu"), ("waiting", "auto")], None),  # which may mean the CPU
        ([("running", "auto"), ("waiting", "cuda")], None),  # has not said yet where it is
        ([("running", "cuda"), ("waiting", "cuda"), ("waiting", "cpu")], "2"),
        ([("running", "cuda"), ("waiting", "auto"), ("waiting", "cpu")], None),  # nobody is overtaken
        ([("failed", "cpu"), ("cancelled", "cpu"), ("interrupted", "cpu"), ("waiting", "cpu")], "3"),
    ],
)
def test_one_at_a_time_per_device_in_the_order_asked_for(jobs, which: str | None):
    found = startable(jobs_of(*jobs))
    assert (found and found.id) == which


def test_only_old_ended_jobs_are_dropped():
    jobs = jobs_of(*[("finished", "cpu")] * 3, ("waiting", "cpu"), ("running", "cpu"))
    jobs[:3] = [replace(job, ended=ended) for job, ended in zip(jobs[:3], (30.0, 10.0, 20.0), strict=True)]
    assert [job.id for job in without_old(jobs, 2)] == ["0", "2", "3", "4"]
    assert [job.id for job in without_old(jobs, 0)] == ["3", "4"]
    assert without_old(jobs, 3) == jobs


@pytest.mark.parametrize(
    ("arguments", "device"),
    [
        (["train", "set"], "auto"),
        (["train", "set", "--device", "cpu"], "cpu"),
        (["resume", "x", "--device=mps"], "mps"),
    ],
)
def test_the_device_is_read_from_the_arguments(arguments, device: str):
    assert new_job(arguments, "", "").device == device


def test_where_to_compute_is_kept_for_the_rest_of_a_run():
    arguments = ["train", "set", "--devices=2", "--epochs", "3", "--device", "cuda", "--set", "x=1"]
    assert place_options(arguments) == ["--devices", "2", "--device", "cuda"]


@pytest.mark.parametrize("option", ["--workspace=/elsewhere", "--announce", "--dry-run"])
def test_what_the_queue_decides_is_refused(option: str):
    with pytest.raises(UsageError, match=option.partition("=")[0]):
        new_job(["train", "set", option], "", "")


def test_a_job_is_the_same_after_a_restart():
    job = replace(new_job(["train", "séts/ü"], "t", "app"), process=ProcessId(7, 1.25), state="running", run="r")
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job
    with pytest.raises(ValueError, match="state='odd'"):
        Job.from_json({**job.to_json(), "state": "odd"})
