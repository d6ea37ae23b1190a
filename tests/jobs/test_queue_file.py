"""The queue without trainings: many writers, damage, a full disk, wrong wishes."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from crlc.errors import DamagedError, DiskFullError, NotFoundError, UsageError
from crlc.jobs import JobQueue
from crlc.jobs.job_file import JobFile
from crlc.workspace import Workspace

WRONG = ("set", "--no-such-option")  # a command that fails fast


def change(workspace: Workspace, job_id: str, **facts: object) -> None:
    with JobFile(workspace.root).changing() as jobs:
        jobs[:] = [replace(job, **facts) if job.id == job_id else job for job in jobs]


def test_nothing_is_lost_between_many_writers(workspace: Workspace):
    """Half of the threads use a queue of their own, as another server would."""
    shared = JobQueue(workspace)

    def ask(number: int) -> None:
        queue = shared if number % 2 else JobQueue(workspace)
        for turn in range(5):
            job = queue.train([f"{number}-{turn}"])
            if turn == 2:
                queue.cancel(job.id)
        queue.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    jobs = shared.jobs()
    assert sorted(job.title for job in jobs) == sorted(f"{number}-{turn}" for number in range(6) for turn in range(5))
    assert sum(job.state == "cancelled" for job in jobs) == 6
    for number in range(6):
        assert [job.title for job in jobs if job.title[0] == str(number)] == [f"{number}-{turn}" for turn in range(5)]


def test_wishes_that_cannot_be(workspace: Workspace):
    queue = JobQueue(workspace)
    job = queue.train(["set"])
    with pytest.raises(UsageError, match="waiting; only one that has ended"):
        queue.forget(job.id)
    with pytest.raises(UsageError, match="waiting; only one that did not finish"):
        queue.retry(job.id)
    with pytest.raises(NotFoundError, match="No run is named 'nothing'"):
        queue.resume("nothing")
    with pytest.raises(UsageError, match="name of a data set"):
        queue.train([])
    queue.cancel(job.id)
    with pytest.raises(UsageError, match="cancelled; only one that waits"):
        queue.cancel(job.id)
    with pytest.raises(UsageError, match="cancelled; only one that runs or waits"):
        queue.stop(job.id)
    again = queue.retry(job.id)
    assert [one.id for one in queue.jobs()] == [again.id]
    with pytest.raises(NotFoundError, match="in the queue any more"):
        queue.retry(job.id)
    queue.stop(again.id)
    assert queue.job(again.id).state == "cancelled"
    change(workspace, again.id, state="finished")
    with pytest.raises(UsageError, match="finished; only one that did not finish"):
        queue.retry(again.id)
    queue.forget(again.id)
    assert queue.jobs() == ()
    assert queue.summary() == "No training is running."
    queue.close()


def test_a_damaged_queue_is_said_and_mended(workspace: Workspace):
    file = workspace.root / "jobs" / "queue.json"
    with JobQueue(workspace) as queue:
        assert queue.wait_for(lambda _: queue.is_owner, 30)
        for content in ("{", '{"kind": "jobs", "version": 1, "jobs": [{"id": 1}]}'):
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
            with pytest.raises(DamagedError, match="running trainings are found again"):
                queue.jobs()
            with pytest.raises(DamagedError):
                queue.train(["set"])
        file.write_text('{"kind": "jobs", "version": 99, "jobs": []}')
        with pytest.raises(DamagedError, match="format version 99"):
            queue.jobs()
        with queue._changed:  # the thread meets it, too, and lives
            assert queue._changed.wait_for(lambda: "format version 99" in queue.problem, 30)
        file.unlink()
        job = queue.train(WRONG)
        assert queue.wait_for(lambda jobs: jobs[0].state == "failed", 30)
        assert "--no-such-option" in queue.job(job.id).error
        assert queue.problem == ""


def test_a_full_disk_delays_and_loses_nothing(small_disk: Path):
    workspace = Workspace(small_disk / "workspace")
    queue = JobQueue(workspace)
    job, other = queue.train(WRONG), queue.train(["other"])
    with suppress(OSError), (small_disk / "filler").open("ab", buffering=0) as stream:
        while stream.write(bytes(1 << 12)):
            pass
    with pytest.raises(DiskFullError):
        queue.train(["third"])
    with queue:
        assert queue.wait_for(lambda _: "is full" in queue.problem, 30)
        assert [one.state for one in queue.jobs()] == ["waiting", "waiting"]
        (small_disk / "filler").unlink()
        queue.cancel(other.id)
        assert queue.wait_for(lambda _: queue.job(job.id).state == "failed", 30)
        assert "--no-such-option" in queue.job(job.id).error


def test_a_server_that_closes_leaves_nothing_open(workspace: Workspace):
    import psutil

    def opened() -> tuple[int, int]:
        return psutil.Process().num_fds() if hasattr(psutil.Process, "num_fds") else 0, threading.active_count()

    with JobQueue(workspace) as queue:  # the first use may open what stays, such as a random device
        assert queue.wait_for(lambda _: queue.is_owner, 30)
    before = opened()
    with JobQueue(workspace) as queue:
        job = queue.train(WRONG)
        assert queue.wait_for(lambda jobs: jobs[0].has_ended, 30)
        folder = workspace.root / "jobs" / job.id
        assert folder.is_dir()
        queue.forget(job.id)
        queue.train(WRONG)
        assert queue.wait_for(lambda jobs: jobs[0].has_ended, 30)
        assert not folder.exists()
    queue.close()
    assert opened() == before
