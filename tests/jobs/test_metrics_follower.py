"""Following metrics while they grow, are torn, cut and written again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from crlc.files import write_json
from crlc.jobs.metrics_follower import MetricsFollower, Place, follower_of
from crlc.training.run_folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


def steps(records: list[dict]) -> list[int]:
    return [record["step"] for record in records]


def test_everybody_gets_what_is_new_to_them(run: RunFolder):
    follower = MetricsFollower(run)
    assert follower.records() == []
    run.append_metrics({"step": 1})
    first = follower.since(Place())
    run.append_metrics({"step": 2})
    second, newcomer = follower.since(first.place), follower.since(Place())
    assert (steps(first.records), first.begins_anew) == ([1], True)
    assert (steps(second.records), second.begins_anew) == ([2], False)
    assert (steps(newcomer.records), newcomer.begins_anew) == ([1, 2], True)
    assert follower.since(second.place).records == []


def test_only_new_bytes_are_read(run: RunFolder):
    for step in range(1000):
        run.append_metrics({"step": step, "loss": 0.5})
    follower = MetricsFollower(run)
    assert len(follower.records()) == 1000
    file = run.path / "metrics.jsonl"
    content = file.read_bytes()
    # Were the beginning read again, it would be met with what is written over it now.
    with file.open("r+b") as stream:
        stream.write(b"x" * 1000)
    run.append_metrics({"step": 1000})
    assert steps(follower.records()) == list(range(1001))
    assert len(file.read_bytes()) > len(content)


def test_a_torn_line_waits_for_its_end(run: RunFolder):
    follower = MetricsFollower(run)
    run.append_metrics({"step": 1})
    with (run.path / "metrics.jsonl").open("ab") as stream:
        stream.write(b'{"step": ')
        stream.flush()
        place = follower.since(Place()).place
        assert place.count == 1
        stream.write(b"2}\n")
    assert steps(follower.since(place).records) == [2]


def test_a_cut_is_noticed_when_the_file_is_shorter(run: RunFolder):
    follower = MetricsFollower(run)
    run.append_metrics({"step": 1})
    length = run.flush_metrics()
    run.append_metrics({"step": 2})
    place = follower.since(Place()).place
    run.cut_metrics(length)
    news = follower.since(place)
    assert (steps(news.records), news.begins_anew) == ([1], True)
    run.append_metrics({"step": 2})
    assert steps(follower.since(news.place).records) == [2]


@pytest.mark.parametrize("last_line_differs", [False, True])
def test_a_cut_is_noticed_when_the_file_has_grown_again(run: RunFolder, last_line_differs: bool):
    """Also when the last line seen is there again at its place, as it is for a resumed run."""
    follower = MetricsFollower(run)
    run.write_status("running", step=0)
    run.append_metrics({"step": 1, "seconds": 0.1})
    run.append_metrics({"step": 2})
    place = follower.since(Place()).place
    if not last_line_differs:
        status = {"kind": "status", "version": 1, "state": "running", "pid": 1, "process_started": 2.0}
        write_json(run.path / "status.json", status)
    run.cut_metrics(0)
    run.append_metrics({"step": 1, "seconds": 0.2})
    for step in (7, 3) if last_line_differs else (2, 3):
        run.append_metrics({"step": step})
    news = follower.since(place)
    assert news.begins_anew
    assert news.records[0] == {"step": 1, "seconds": 0.2}
    assert news.records == list(run.metrics())


def test_a_deleted_run_has_none(run: RunFolder):
    follower = MetricsFollower(run)
    run.append_metrics({"step": 1})
    place = follower.since(Place()).place
    os.unlink(run.path / "metrics.jsonl")
    assert follower.since(place).begins_anew
    assert follower.records() == []


def test_a_damaged_line_hides_only_what_follows(run: RunFolder):
    run.append_metrics({"step": 1})
    with (run.path / "metrics.jsonl").open("ab") as stream:
        stream.write(b"\0\0\0\n")
    follower = MetricsFollower(run)
    assert steps(follower.records()) == [1]
    run.append_metrics({"step": 2})
    assert steps(follower.records()) == [1]


def test_sessions_share_one_follower_and_read_while_it_grows(run: RunFolder):
    assert follower_of(run) is follower_of(RunFolder(run.path))
    seen: list[list[int]] = []

    def session() -> None:
        place, mine = Place(), []
        while len(mine) < 300:
            news = follower_of(run).since(place)
            mine = steps(news.records) if news.begins_anew else mine + steps(news.records)
            place = news.place
        seen.append(mine)

    sessions = [threading.Thread(target=session) for _ in range(3)]
    for thread in sessions:
        thread.start()
    for step in range(300):
        run.append_metrics({"step": step})
    for thread in sessions:
        thread.join()
    assert seen == [list(range(300))] * 3


def test_old_followers_are_let_go(run: RunFolder, tmp_path: Path):
    first = follower_of(run)
    for number in range(16):
        follower_of(RunFolder(tmp_path / str(number)))
    assert follower_of(run) is not first
