"""JobQueue with real processes: order, failures, stops, killed training processes and servers, several servers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from crlc.errors import UsageError
from crlc.jobs import Job, JobQueue
from crlc.jobs.job_file import JobFile
from crlc.jobs.shared_queue import close_queues, get_queue
from crlc.runs.metrics_follower import get_follower
from crlc.runs.state import RunState
from crlc.subprocesses import ProcessId
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.conftest import ROOT

pytestmark = [pytest.mark.skipif(os.name != "posix", reason="needs signals"), pytest.mark.slow]

SMALL = ("--set", "subheads=2", "--set", "batch_size=64", "--set", "log_steps=1")
SHORT = ("set", "--epochs", "1", *SMALL)
LONG = ("set", "--epochs", "100000", *SMALL)
WRONG = ("set", "--no-such-option")
TIMEOUT_SECONDS = 60


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """Yield a workspace with a dataset of 100 images; kill the training processes that still run at the end."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 255, (100, 16, 16), np.uint8)
    np.savez(tmp_path / "set.npz", images=images, labels=np.arange(100) % 2)
    workspace = Workspace(tmp_path / "workspace")
    workspace.import_dataset(str(tmp_path / "set.npz"))
    yield workspace
    for job in JobFile(workspace.root).read_jobs():
        if job.is_running and job.process is not None:
            job.process.kill()


@pytest.fixture
def start_server(workspace: Workspace) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.fixtures.job_server", str(workspace.root), *arguments]
        server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()
        server.communicate()


def wait_for_job(queue: JobQueue, job: Job, condition: Callable[[Job], object]) -> Job:
    """Wait until a condition on a job holds, and return the job."""
    assert queue.wait_until(lambda _: condition(queue.get_job(job.id)), TIMEOUT_SECONDS), (
        queue.read_jobs(),
        queue.problem,
    )
    return queue.get_job(job.id)


def wait_for_end(process: ProcessId) -> bool:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(process.pid).wait(TIMEOUT_SECONDS)
    return not process.is_alive()


def test_queue_runs_jobs_in_order_one_at_a_time(workspace: Workspace):
    close_queues()  # those that tests of the app in the same process have opened
    queue = get_queue(workspace)
    assert get_queue(Workspace(workspace.root)) is queue
    submitted = [
        queue.submit(arguments, title=title) for arguments, title in ((WRONG, "a"), (SHORT, "b"), (WRONG, "c"))
    ]
    assert queue.wait_until(lambda jobs: all(job.is_final for job in jobs), TIMEOUT_SECONDS)
    wrong, short, last = queue.read_jobs()
    assert [job.id for job in submitted] == [wrong.id, short.id, last.id]
    assert [job.state for job in queue.read_jobs()] == ["failed", "finished", "failed"]
    assert "--no-such-option" in wrong.error
    assert wrong.created <= wrong.started <= wrong.ended <= short.started <= short.ended <= last.started
    assert RunStore(workspace).list_ids() == [short.run]
    assert short.device == "cpu"
    assert RunStore(workspace).open(short.run).read_status().pid == short.process.pid
    assert short.run in queue.read_log(short.id)
    assert queue.find_job_of_run(short.run) == short
    with pytest.raises(UsageError, match="is finished"):
        queue.resume(short.run)
    assert len(close_queues()) == 1


def test_queue_resumes_and_stops_a_run_whose_process_was_killed(workspace: Workspace):
    with JobQueue(workspace) as queue:
        job = wait_for_job(queue, queue.submit(LONG), lambda job: job.run)
        run = RunStore(workspace).open(job.run)
        with pytest.raises(UsageError, match="is running"):
            queue.cancel(job.id)
        assert os.getsid(job.process.pid) == job.process.pid  # Ctrl-C in the terminal of the app does not reach it
        os.kill(job.process.pid, signal.SIGKILL)
        job = wait_for_job(queue, job, lambda job: job.is_final)
        assert job.state == "interrupted"
        assert job.error
        assert run.read_status().state is RunState.INTERRUPTED

        again = queue.retry(job.id)
        assert queue.resume(job.run) == again or queue.get_job(again.id).is_running  # requested twice, listed once
        again = wait_for_job(queue, again, lambda job: job.is_running)
        assert [one.id for one in queue.read_jobs()] == [again.id]
        queue.stop(again.id)  # before it trains: neither the request nor the run may be lost
        assert queue.get_job(again.id).is_stopping
        again = wait_for_job(queue, again, lambda job: job.is_final)
        assert (again.state, again.error, again.run) == ("stopped", "", job.run)
        assert not again.process.is_alive()


@pytest.mark.parametrize("at_once", [False, True])
def test_queue_stop_works_before_the_run_exists(workspace: Workspace, at_once: bool):
    with JobQueue(workspace) as queue:
        job = wait_for_job(queue, queue.submit(LONG), lambda job: job.is_running)
        queue.stop(job.id, at_once=at_once)
        job = wait_for_job(queue, job, lambda job: job.is_final)
        assert (job.state, job.error, job.run) == ("stopped", "", None)
        assert wait_for_end(job.process)
        assert queue.retry(job.id).arguments == ("train", *LONG)
    assert RunStore(workspace).list_ids() == []


def test_queue_of_a_second_server_takes_over_when_the_owner_is_killed(workspace, start_server):
    server = start_server()
    assert server.stdout.readline() == "ready\n"
    with JobQueue(workspace) as queue:
        job = wait_for_job(queue, queue.submit(LONG), lambda job: job.run)
        assert psutil.Process(job.process.pid).ppid() == server.pid
        cancelled, waiting = queue.submit(SHORT), queue.submit(WRONG)
        queue.cancel(cancelled.id)
        assert not queue.is_owner
        assert re.search(r"another app\b.*\b1\b", queue.describe_pending_jobs())
        server.kill()
        server.wait()
        assert queue.wait_until(lambda _: queue.is_owner, TIMEOUT_SECONDS)
        follower = get_follower(RunStore(workspace).open(job.run))
        seen = len(follower.read_records())
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while len(follower.read_records()) == seen:  # until the run, which continues, has logged another record
            assert time.monotonic() < deadline
            with pytest.raises(psutil.TimeoutExpired):
                psutil.Process(job.process.pid).wait(0.2)
        assert queue.get_job(job.id).process == job.process
        assert queue.get_job(waiting.id).state == "waiting"
        queue.stop(job.id)
        assert wait_for_job(queue, job, lambda job: job.is_final).state == "stopped"
        assert wait_for_job(queue, waiting, lambda job: job.is_final).state == "failed"
        assert queue.get_job(cancelled.id).started is None
    assert RunStore(workspace).list_ids() == [job.run]


def test_queue_lists_runs_started_in_a_terminal_or_by_an_earlier_server(workspace: Workspace, start_crlc):
    terminal = start_crlc("train", *LONG)
    with JobQueue(workspace) as queue:
        assert queue.wait_until(lambda jobs: jobs, TIMEOUT_SECONDS)
        (job,) = queue.read_jobs()
        assert (job.requested_by, job.title, job.process.pid, job.device) == ("elsewhere", "set", terminal.pid, "auto")
        job = wait_for_job(queue, job, lambda job: job.device == "cpu")
        waiting = queue.submit(WRONG)
        assert job.run in queue.describe_pending_jobs()
    assert job.process.is_alive()
    with JobQueue(workspace) as queue:
        assert queue.wait_until(lambda _: queue.is_owner, TIMEOUT_SECONDS)
        assert [one.state for one in queue.read_jobs()] == ["running", "waiting"]
        queue.stop(job.id)
        out, _ = terminal.communicate(timeout=TIMEOUT_SECONDS)
        assert "stopped" in out
        assert wait_for_job(queue, job, lambda job: job.is_final).state == "stopped"
        assert wait_for_job(queue, waiting, lambda job: job.is_final).state == "failed"


def test_queue_child_process_exits_when_its_id_was_not_stored(workspace: Workspace, start_server):
    server = start_server("die-before-storing")
    pid = int(server.stdout.readline())
    assert server.wait() == -signal.SIGKILL
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(TIMEOUT_SECONDS)
    assert RunStore(workspace).list_ids() == []
    assert (workspace.root / "log.txt").read_text() == ""
