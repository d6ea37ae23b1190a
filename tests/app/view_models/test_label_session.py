"""Decisions of the user: executed once, undone one by one, and reported when they fail."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from app.view_models.label_session import Decision, DecisionBatch, LabelSession, parse_batch
from crlc.annotations.store import AnnotationStore
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset


def batch(*decisions: Decision, window: str = "w", seen: int = 0, at: int | None = None) -> DecisionBatch:
    return DecisionBatch(window, seen, at, decisions)


def label(number: int, image: int, name: str) -> Decision:
    return Decision(number, "label", image, name)


def test_session_executes_each_decision_once(tmp_path: Path):
    with AnnotationStore(write_handmade_dataset(tmp_path, build_numbered_paths(9))) as annotations:
        session = LabelSession()
        first = [label(1, 3, "a"), label(2, 4, "b")]
        assert session.apply(batch(*first, at=5), annotations) == 2
        assert (session.last, session.at) == (2, 5)
        # Without an acknowledgement, the browser sends the decisions again, together with newer ones.
        more = [*first, Decision(3, "exclude", 5), Decision(4, "skip", 6), label(5, 7, "a")]
        assert session.apply(batch(*reversed(more)), annotations) == 3
        assert session.apply(batch(*more), annotations) == 0
        now = annotations.refresh()
        assert now.get_labels([3, 4, 5, 6, 7]) == ["a", "b", None, None, "a"]
        assert now.get_excluded_ids().tolist() == [5]
        assert session.skipped == {6}
        assert len(annotations.read_history()) == 4
        assert session.failed == {}


def test_session_counts_decisions_per_window(tmp_path: Path):
    with AnnotationStore(write_handmade_dataset(tmp_path, build_numbered_paths(4))) as annotations:
        session = LabelSession()
        session.apply(batch(label(1, 1, "a"), label(2, 2, "a")), annotations)
        assert session.apply(batch(label(1, 3, "b"), window="reloaded"), annotations) == 1
        assert session.last == 1
        assert session.apply(batch(label(2, 2, "z")), annotations) == 0  # sent again by the old window
        assert annotations.refresh().get_labels([1, 2, 3]) == ["a", "a", "b"]


def test_session_undoes_its_own_decision_only(tmp_path: Path):
    dataset = write_handmade_dataset(tmp_path, build_numbered_paths(6))
    with AnnotationStore(dataset) as mine, AnnotationStore(dataset) as theirs:
        session = LabelSession()
        session.apply(batch(label(1, 1, "a"), label(2, 1, "b"), Decision(3, "exclude", 2)), mine)
        theirs.label([3], "theirs")
        session.apply(batch(Decision(4, "undo", 2, of=3), Decision(5, "undo", 1, of=2)), mine)
        assert mine.refresh().get_labels([1, 2, 3]) == ["a", None, "theirs"]
        assert mine.refresh().get_excluded_ids().tolist() == []
        # Without later changes, undo uses the history, so that the change can be redone.
        session.apply(batch(label(6, 4, "c"), Decision(7, "undo", 4, of=6)), mine)
        assert mine.read_history()[0].undone
        assert mine.redo().title == "label 1 image 'c'"
        # Labelling an excluded image includes it; undo restores both.
        mine.exclude([5])
        session.apply(batch(label(8, 5, "d")), mine)
        assert (mine.refresh().get_label(5), mine.refresh().get_excluded_ids().tolist()) == ("d", [])
        session.apply(batch(Decision(9, "undo", 5, of=8)), mine)
        assert (mine.refresh().get_label(5), mine.refresh().get_excluded_ids().tolist()) == (None, [5])
        session.apply(batch(Decision(10, "skip", 6), Decision(11, "undo", 6, of=10)), mine)
        assert session.skipped == set()
        session.apply(batch(Decision(12, "undo", 0)), mine)
        assert "exclude 1 image" in session.message


def test_session_reports_decisions_that_cannot_be_written(tmp_path: Path):
    dataset = write_handmade_dataset(tmp_path, build_numbered_paths(4))
    with AnnotationStore(dataset) as annotations:
        annotations.label([4], "x")
        session = LabelSession()
        other = sqlite3.connect(dataset.folder / "annotations.sqlite")
        other.execute("CREATE TRIGGER full BEFORE INSERT ON operations BEGIN SELECT RAISE(ABORT, 'no room'); END")
        other.commit()
        session.apply(batch(label(1, 1, "a"), label(2, 99, "a"), label(3, 2, "")), annotations)
        assert session.saved_at is None
        assert session.last == 3
        assert "no room" in session.failed[1]
        assert "no readable image with id 99" in session.failed[2]
        assert "empty" in session.failed[3]
        assert annotations.refresh().get_label(1) is None
        other.execute("DROP TRIGGER full")
        other.commit()
        other.close()
        session.apply(batch(label(4, 1, "a"), seen=3), annotations)  # tried again; the browser knows the errors
        assert session.failed == {}
        assert session.saved_at is not None
        assert annotations.refresh().get_label(1) == "a"


@pytest.mark.parametrize("value", [None, {}, "x", {"window": "w", "seen": 0, "decisions": [{"n": "?"}]}, []])
def test_parse_batch_rejects_invalid_values(value: object):
    assert parse_batch(value) is None


def test_parse_batch_reads_decisions():
    sent = {"window": "w", "seen": 2, "at": None, "decisions": [{"n": 3, "act": "undo", "id": 4, "of": 1}]}
    assert parse_batch(sent) == DecisionBatch("w", 2, None, (Decision(3, "undo", 4, "", 1),))
