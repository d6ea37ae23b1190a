"""The queue with real processes: order, failures, stopping, kills of training and server, several servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from crlc.errors import UsageError
from crlc.jobs import Job, JobQueue, follower_of
from crlc.jobs.job_file import JobFile
from crlc.jobs.metrics_follower import Place
from crlc.jobs.process import ProcessId
from crlc.jobs.shared import close_queues, queue_of
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")

SMALL = ("--set", "subheads=2", "--set", "batch_size=64", "--set", "log_steps=1")
SHORT = ("set", "--epochs", "1", *SMALL)
LONG = ("set", "--epochs", "100000", *SMALL)
WRONG = ("set", "--no-such-option")
PATIENCE = 60


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """One with a data set of 100 pictures; whatever still trains there in the end is killed."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 255, (100, 16, 16), np.uint8)
    np.savez(tmp_path / "set.npz", images=images, labels=np.arange(100) % 2)
    workspace = Workspace(tmp_path / "workspace")
    workspace.import_dataset(str(tmp_path / "set.npz"))
    yield workspace
    for job in JobFile(workspace.root).jobs():
        if job.is_running and job.process is not None:
            job.process.signal(kill=True)


@pytest.fixture
def start_server(workspace: Workspace) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.jobs.server", str(workspace.root), *arguments]
        server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()
        server.communicate()


def wait(queue: JobQueue, job: Job, wanted: Callable[[Job], object]) -> Job:
    assert queue.wait_for(lambda _: wanted(queue.job(job.id)), PATIENCE), (queue.jobs(), queue.problem)
    return queue.job(job.id)


def has_ended(process: ProcessId) -> bool:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(process.pid).wait(PATIENCE)
    return not process.is_alive()


def test_jobs_run_in_order_one_at_a_time(workspace: Workspace):
    queue = queue_of(workspace)
    assert queue_of(Workspace(workspace.root)) is queue
    asked = [queue.train(arguments, title=title) for arguments, title in ((WRONG, "a"), (SHORT, "b"), (WRONG, "c"))]
    assert queue.wait_for(lambda jobs: all(job.has_ended for job in jobs), PATIENCE)
    wrong, short, last = queue.jobs()
    assert [job.id for job in asked] == [wrong.id, short.id, last.id]
    assert [job.state for job in queue.jobs()] == ["failed", "finished", "failed"]
    assert "unrecognized arguments: --no-such-option" in wrong.error
    assert wrong.created <= wrong.started <= wrong.ended <= short.started <= short.ended <= last.started
    assert Runs(workspace).ids() == [short.run]
    assert short.device == "cpu"
    assert Runs(workspace).open(short.run).status()["pid"] == short.process.pid
    assert f"{short.run}: finished after 1 epochs" in queue.log(short.id)
    assert queue.job_of(short.run) == short
    with pytest.raises(UsageError, match="is finished; only"):
        queue.resume(short.run)
    assert close_queues() == ["No training is running."]


def test_a_killed_training_is_interrupted_resumed_and_stopped(workspace: Workspace):
    with JobQueue(workspace) as queue:
        job = wait(queue, queue.train(LONG), lambda job: job.run)
        run = Runs(workspace).open(job.run)
        with pytest.raises(UsageError, match="running; only one that waits"):
            queue.cancel(job.id)
        assert os.getsid(job.process.pid) == job.process.pid  # a Ctrl-C in our terminal does not reach it
        os.kill(job.process.pid, signal.SIGKILL)
        job = wait(queue, job, lambda job: job.has_ended)
        assert job.state == "interrupted"
        assert "killed" in job.error
        assert run.status()["state"] == "failed"

        again = queue.retry(job.id)
        assert queue.resume(job.run) == again or queue.job(again.id).is_running  # asked for twice, there once
        again = wait(queue, again, lambda job: job.is_running)
        assert [one.id for one in queue.jobs()] == [again.id]
        queue.stop(again.id)  # before it trains: the wish must not be lost, nor the run
        assert queue.job(again.id).is_stopping
        again = wait(queue, again, lambda job: job.has_ended)
        assert (again.state, again.error, again.run) == ("stopped", "", job.run)
        assert not again.process.is_alive()


@pytest.mark.parametrize("at_once", [False, True])
def test_a_job_is_stopped_before_its_run_begins(workspace: Workspace, at_once: bool):
    with JobQueue(workspace) as queue:
        job = wait(queue, queue.train(LONG), lambda job: job.is_running)
        queue.stop(job.id, at_once=at_once)
        job = wait(queue, job, lambda job: job.has_ended)
        assert (job.state, job.error, job.run) == ("stopped", "", None)
        assert has_ended(job.process)
        assert queue.retry(job.id).arguments == ("train", *LONG)
    assert Runs(workspace).ids() == []


def test_another_server_hands_its_jobs_over_and_takes_all_over_when_the_first_is_killed(workspace, start_server):
    server = start_server()
    assert server.stdout.readline() == "ready\n"
    with JobQueue(workspace) as queue:
        job = wait(queue, queue.train(LONG), lambda job: job.run)
        assert psutil.Process(job.process.pid).ppid() == server.pid
        cancelled, waiting = queue.train(SHORT), queue.train(WRONG)
        queue.cancel(cancelled.id)
        assert not queue.is_owner
        assert "left to another app on this workspace: 1" in queue.summary()
        server.kill()
        server.wait()
        assert queue.wait_for(lambda _: queue.is_owner, PATIENCE)
        follower = follower_of(Runs(workspace).open(job.run))
        seen = follower.since(Place()).place
        while not follower.since(seen).records:  # it trains on
            with pytest.raises(psutil.TimeoutExpired):
                psutil.Process(job.process.pid).wait(0.2)
        assert queue.job(job.id).process == job.process
        assert queue.job(waiting.id).state == "waiting"
        queue.stop(job.id)
        assert wait(queue, job, lambda job: job.has_ended).state == "stopped"
        assert wait(queue, waiting, lambda job: job.has_ended).state == "failed"
        assert queue.job(cancelled.id).started is None
    assert Runs(workspace).ids() == [job.run]


def test_a_closed_app_finds_its_training_and_that_of_a_terminal_again(workspace: Workspace, start_crlc):
    terminal = start_crlc("train", *LONG)
    with JobQueue(workspace) as queue:
        assert queue.wait_for(lambda jobs: jobs, PATIENCE)
        (job,) = queue.jobs()
        assert (job.asked_by, job.title, job.process.pid, job.device) == ("elsewhere", "set", terminal.pid, "auto")
        job = wait(queue, job, lambda job: job.device == "cpu")
        waiting = queue.train(WRONG)
        said = queue.summary()
        assert f"A training goes on without the app: {job.run}." in said
        assert "Waiting until the app is started again: 1." in said
    assert job.process.is_alive()
    with JobQueue(workspace) as queue:
        assert queue.wait_for(lambda _: queue.is_owner, PATIENCE)
        assert [one.state for one in queue.jobs()] == ["running", "waiting"]
        queue.stop(job.id)
        out, _ = terminal.communicate(timeout=PATIENCE)
        assert "stopped" in out
        assert wait(queue, job, lambda job: job.has_ended).state == "stopped"
        assert wait(queue, waiting, lambda job: job.has_ended).state == "failed"


def test_a_process_that_nobody_noted_down_does_nothing(workspace: Workspace, start_server):
    server = start_server("unspoken")
    pid = int(server.stdout.readline())
    assert server.wait() == -signal.SIGKILL
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(PATIENCE)
    assert Runs(workspace).ids() == []
    assert (workspace.root / "log.txt").read_text() == ""
