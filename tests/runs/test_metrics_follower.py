"""MetricsFollower: logs that grow, end in an incomplete line, are truncated and written again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from crlc.files import write_json
from crlc.runs.folder import RunFolder
from crlc.runs.metrics_follower import MetricsFollower, get_follower
from crlc.runs.state import RunState


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


def read_steps(follower: MetricsFollower) -> list[int]:
    return [record["step"] for record in follower.read_records()]


def test_follower_returns_all_records_each_time(run: RunFolder):
    follower = MetricsFollower(run)
    assert follower.read_records() == []
    run.metrics_log.append({"step": 1})
    first = follower.read_records()
    run.metrics_log.append({"step": 2})
    assert read_steps(follower) == read_steps(follower) == [1, 2]
    assert first == [{"step": 1}]  # a list returned earlier does not change


def test_follower_reads_only_new_bytes(run: RunFolder):
    for step in range(1000):
        run.metrics_log.append({"step": step, "loss": 0.5})
    follower = MetricsFollower(run)
    assert len(follower.read_records()) == 1000
    # If the follower read the beginning again, it would find these bytes instead of records.
    with run.metrics_log.path.open("r+b") as stream:
        stream.write(b"x" * 1000)
    run.metrics_log.append({"step": 1000})
    assert read_steps(follower) == list(range(1001))


def test_follower_ignores_an_incomplete_line_until_its_end(run: RunFolder):
    follower = MetricsFollower(run)
    run.metrics_log.append({"step": 1})
    with run.metrics_log.path.open("ab") as stream:
        stream.write(b'{"step": ')
        stream.flush()
        assert read_steps(follower) == [1]
        stream.write(b"2}\n")
    assert read_steps(follower) == [1, 2]


def test_follower_notices_a_truncation_when_the_file_is_shorter(run: RunFolder):
    follower = MetricsFollower(run)
    run.metrics_log.append({"step": 1})
    length = run.metrics_log.flush()
    run.metrics_log.append({"step": 2})
    assert read_steps(follower) == [1, 2]
    run.metrics_log.truncate(length)
    assert read_steps(follower) == [1]
    run.metrics_log.append({"step": 3})
    assert read_steps(follower) == [1, 3]


@pytest.mark.parametrize("last_line_differs", [False, True])
def test_follower_notices_a_truncation_when_the_file_has_grown_again(run: RunFolder, last_line_differs: bool):
    """A resumed run may write the same last line at the same position; then only its process id differs."""
    follower = MetricsFollower(run)
    run.write_status(RunState.RUNNING, step=0)
    run.metrics_log.append({"step": 1, "seconds": 0.1})
    run.metrics_log.append({"step": 2})
    assert read_steps(follower) == [1, 2]
    if not last_line_differs:
        status = {"kind": "status", "version": 1, "state": "running", "pid": 1, "process_started": 2.0}
        write_json(run.path / "status.json", status)
    run.metrics_log.truncate(0)
    run.metrics_log.append({"step": 1, "seconds": 0.2})
    for step in (7, 3) if last_line_differs else (2, 3):
        run.metrics_log.append({"step": step})
    records = follower.read_records()
    assert records[0] == {"step": 1, "seconds": 0.2}
    assert records == list(run.metrics_log.read())


def test_follower_of_a_deleted_run_has_no_records(run: RunFolder):
    follower = MetricsFollower(run)
    run.metrics_log.append({"step": 1})
    assert read_steps(follower) == [1]
    os.unlink(run.metrics_log.path)
    assert follower.read_records() == []


def test_follower_ignores_records_after_a_damaged_line(run: RunFolder):
    run.metrics_log.append({"step": 1})
    with run.metrics_log.path.open("ab") as stream:
        stream.write(b"\0\0\0\n")
    follower = MetricsFollower(run)
    assert read_steps(follower) == [1]
    run.metrics_log.append({"step": 2})
    assert read_steps(follower) == [1]


def test_get_follower_shares_one_between_threads_while_the_log_grows(run: RunFolder):
    assert get_follower(run) is get_follower(RunFolder(run.path))
    seen: list[list[int]] = []

    def poll() -> None:
        steps: list[int] = []
        while len(steps) < 300:
            steps = read_steps(get_follower(run))
        seen.append(steps)

    threads = [threading.Thread(target=poll, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(300):
        run.metrics_log.append({"step": step})
    for thread in threads:
        thread.join(timeout=60)
    assert seen == [list(range(300))] * 3


def test_get_follower_drops_the_least_recently_used(run: RunFolder, tmp_path: Path):
    first = get_follower(run)
    for number in range(16):
        get_follower(RunFolder(tmp_path / str(number)))
    assert get_follower(run) is not first


def test_follower_of_a_folder_has_no_records(tmp_path: Path):
    run = RunFolder(tmp_path)
    run.metrics_log.path.mkdir()
    assert MetricsFollower(run).read_records() == []
