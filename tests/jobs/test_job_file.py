"""JobFile and JobQueue without training runs: many writers, damage, a full disk, refused requests."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from crlc.errors import DamagedError, DiskFullError, NotFoundError, UsageError
from crlc.jobs import JobQueue
from crlc.jobs.job import JobState
from crlc.jobs.job_file import JobFile
from crlc.workspace import Workspace

WRONG = ("set", "--no-such-option")  # a command that fails at once
TIMEOUT_SECONDS = 60


def edit_job(workspace: Workspace, job_id: str, **fields: object) -> None:
    with JobFile(workspace.root).edit() as jobs:
        jobs[:] = [replace(job, **fields) if job.id == job_id else job for job in jobs]


def test_job_file_keeps_the_edits_of_many_writers(workspace: Workspace):
    """Half of the threads have their own queue, as a second server has."""
    shared = JobQueue(workspace)

    def submit_jobs(number: int) -> None:
        queue = shared if number % 2 else JobQueue(workspace)
        for turn in range(5):
            job = queue.submit([f"{number}-{turn}"])
            if turn == 2:
                queue.cancel(job.id)
        queue.close()

    threads = [threading.Thread(target=submit_jobs, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=TIMEOUT_SECONDS)
    jobs = shared.read_jobs()
    assert sorted(job.title for job in jobs) == sorted(f"{number}-{turn}" for number in range(6) for turn in range(5))
    assert sum(job.state is JobState.CANCELLED for job in jobs) == 6
    for number in range(6):
        assert [job.title for job in jobs if job.title[0] == str(number)] == [f"{number}-{turn}" for turn in range(5)]


def test_queue_refuses_requests_that_do_not_fit_the_state(workspace: Workspace):
    queue = JobQueue(workspace)
    job = queue.submit(["set"])
    with pytest.raises(UsageError, match="is waiting"):
        queue.dismiss(job.id)
    with pytest.raises(UsageError, match="is waiting"):
        queue.retry(job.id)
    with pytest.raises(NotFoundError, match="nothing"):
        queue.resume("nothing")
    with pytest.raises(UsageError, match="dataset"):
        queue.submit([])
    queue.cancel(job.id)
    with pytest.raises(UsageError, match="is cancelled"):
        queue.cancel(job.id)
    with pytest.raises(UsageError, match="is cancelled"):
        queue.stop(job.id)
    again = queue.retry(job.id)
    assert [one.id for one in queue.read_jobs()] == [again.id]
    with pytest.raises(NotFoundError, match=job.id):
        queue.retry(job.id)
    queue.stop(again.id)
    assert queue.get_job(again.id).state == "cancelled"
    edit_job(workspace, again.id, state=JobState.FINISHED)
    with pytest.raises(UsageError, match="is finished"):
        queue.retry(again.id)
    queue.dismiss(again.id)
    assert queue.read_jobs() == ()
    queue.close()


def test_queue_reports_a_damaged_job_file_and_recovers(workspace: Workspace):
    file = workspace.root / "jobs" / "queue.json"
    with JobQueue(workspace) as queue:
        assert queue.wait_until(lambda _: queue.is_owner, TIMEOUT_SECONDS)
        for content in ("{", '{"kind": "jobs", "version": 1, "jobs": [{"id": 1}]}'):
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
            with pytest.raises(DamagedError, match="queue.json"):
                queue.read_jobs()
            with pytest.raises(DamagedError, match="queue.json"):
                queue.submit(["set"])
        file.write_text('{"kind": "jobs", "version": 99, "jobs": []}')
        with pytest.raises(DamagedError, match="version 99"):
            queue.read_jobs()
        with queue._changed:  # the thread of the queue gets the error, too, and continues
            assert queue._changed.wait_for(lambda: "99" in queue.problem, TIMEOUT_SECONDS)
        file.unlink()
        job = queue.submit(WRONG)
        assert queue.wait_until(lambda jobs: jobs[0].state is JobState.FAILED, TIMEOUT_SECONDS)
        assert "--no-such-option" in queue.get_job(job.id).error
        assert queue.problem == ""


def test_queue_on_a_full_disk_delays_jobs_and_loses_none(small_disk: Path):
    workspace = Workspace(small_disk / "workspace")
    queue = JobQueue(workspace)
    job, other = queue.submit(WRONG), queue.submit(["other"])
    with suppress(OSError), (small_disk / "filler").open("ab", buffering=0) as stream:
        while stream.write(bytes(1 << 12)):
            pass
    with pytest.raises(DiskFullError):
        queue.submit(["third"])
    with queue:
        assert queue.wait_until(lambda _: str(workspace.root) in queue.problem, TIMEOUT_SECONDS)
        assert [one.state for one in queue.read_jobs()] == ["waiting", "waiting"]
        (small_disk / "filler").unlink()
        queue.cancel(other.id)
        assert queue.wait_until(lambda _: queue.get_job(job.id).state is JobState.FAILED, TIMEOUT_SECONDS)
        assert "--no-such-option" in queue.get_job(job.id).error


def test_queue_close_releases_files_and_threads(workspace: Workspace):
    import psutil

    def count_open() -> tuple[int, int]:
        return psutil.Process().num_fds() if hasattr(psutil.Process, "num_fds") else 0, threading.active_count()

    with JobQueue(workspace) as queue:  # the first use may open files that stay open, such as a random device
        assert queue.wait_until(lambda _: queue.is_owner, TIMEOUT_SECONDS)
    before = count_open()
    with JobQueue(workspace) as queue:
        job = queue.submit(WRONG)
        assert queue.wait_until(lambda jobs: jobs[0].is_final, TIMEOUT_SECONDS)
        folder = workspace.root / "jobs" / job.id
        assert folder.is_dir()
        queue.dismiss(job.id)
        queue.submit(WRONG)
        assert queue.wait_until(lambda jobs: jobs[0].is_final, TIMEOUT_SECONDS)
        assert not folder.exists()
    queue.close()
    assert count_open() == before
