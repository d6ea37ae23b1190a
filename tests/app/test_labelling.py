"""What the Label page does, without Streamlit: decisions, rows of images, and what comes of labels."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.exploring.opened import open_dataset, open_run
from app.labelling.desk import Decision, Desk, Work, read_work
from app.labelling.improving import (
    changes_between,
    family_of,
    given_labels,
    job_of_parent,
    semi_arguments,
)
from app.labelling.items import Items, states_of
from app.labelling.sources import Row, merged_names, of_cluster, of_selection, refilled, says_the_same, suggested
from app.moves import moves_of
from app.run_lines import RunLine
from crlc.analysis.compare import compare_runs
from crlc.analysis.map_settings import MapSettings
from crlc.jobs.job import new_job
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.clusterings import ClusterEditor
from crlc.workspace.exploration import ExplorationSettings, explore
from tests.app.tiny_run import CLUSTERS, SURE, tiny_dataset, tiny_run
from tests.workspace.handmade import handmade_dataset, numbered
from tests.workspace.handmade_results import handmade_result, on_circle


def work(*decisions: Decision, window: str = "w", seen: int = 0, at: int | None = None) -> Work:
    return Work(window, seen, at, decisions)


def label(number: int, image: int, name: str) -> Decision:
    return Decision(number, "label", image, name)


# ---- decisions


def test_several_decisions_at_once_are_each_carried_out_once(tmp_path: Path):
    with Annotations(handmade_dataset(tmp_path, numbered(9))) as annotations:
        desk = Desk()
        first = [label(1, 3, "a"), label(2, 4, "b")]
        assert desk.take(work(*first, at=5), annotations) == 2
        assert (desk.last, desk.at) == (2, 5)
        # The answer was on its way: the browser sends them again, with what came meanwhile.
        more = [*first, Decision(3, "exclude", 5), Decision(4, "skip", 6), label(5, 7, "a")]
        assert desk.take(work(*reversed(more)), annotations) == 3
        assert desk.take(work(*more), annotations) == 0
        now = annotations.refresh()
        assert now.labels([3, 4, 5, 6, 7]) == ["a", "b", None, None, "a"]
        assert now.excluded().tolist() == [5]
        assert desk.skipped == {6}
        assert len(annotations.history()) == 4
        assert desk.failed == {}


def test_another_window_counts_anew(tmp_path: Path):
    with Annotations(handmade_dataset(tmp_path, numbered(4))) as annotations:
        desk = Desk()
        desk.take(work(label(1, 1, "a"), label(2, 2, "a")), annotations)
        assert desk.take(work(label(1, 3, "b"), window="reloaded"), annotations) == 1
        assert desk.last == 1
        assert desk.take(work(label(2, 2, "z")), annotations) == 0  # the old one, once more
        assert annotations.refresh().labels([1, 2, 3]) == ["a", "a", "b"]


def test_undo_takes_back_its_own_decision_and_leaves_what_others_did(tmp_path: Path):
    dataset = handmade_dataset(tmp_path, numbered(6))
    with Annotations(dataset) as mine, Annotations(dataset) as theirs:
        desk = Desk()
        desk.take(work(label(1, 1, "a"), label(2, 1, "b"), Decision(3, "exclude", 2)), mine)
        theirs.label([3], "theirs")
        desk.take(work(Decision(4, "undo", 2, of=3), Decision(5, "undo", 1, of=2)), mine)
        assert mine.refresh().labels([1, 2, 3]) == ["a", None, "theirs"]
        assert mine.refresh().excluded().tolist() == []
        # Nobody came between: it is the history's own undo, and can be redone.
        desk.take(work(label(6, 4, "c"), Decision(7, "undo", 4, of=6)), mine)
        assert mine.history()[0].undone
        assert mine.redo().title == "label 1 image 'c'"
        # A label on an excluded image takes it in; undoing puts both back.
        mine.exclude([5])
        desk.take(work(label(8, 5, "d")), mine)
        assert (mine.refresh().label(5), mine.refresh().excluded().tolist()) == ("d", [])
        desk.take(work(Decision(9, "undo", 5, of=8)), mine)
        assert (mine.refresh().label(5), mine.refresh().excluded().tolist()) == (None, [5])
        desk.take(work(Decision(10, "skip", 6), Decision(11, "undo", 6, of=10)), mine)
        assert desk.skipped == set()
        desk.take(work(Decision(12, "undo", 0)), mine)
        assert desk.said == "Undone: exclude 1 image"


def test_what_cannot_be_written_is_told_and_not_called_saved(tmp_path: Path):
    dataset = handmade_dataset(tmp_path, numbered(4))
    with Annotations(dataset) as annotations:
        annotations.label([4], "x")
        desk = Desk()
        other = sqlite3.connect(dataset.folder / "annotations.sqlite")
        other.execute("CREATE TRIGGER full BEFORE INSERT ON operations BEGIN SELECT RAISE(ABORT, 'no room'); END")
        other.commit()
        desk.take(work(label(1, 1, "a"), label(2, 99, "a"), label(3, 2, "")), annotations)
        assert desk.saved is None
        assert desk.last == 3
        assert "no room" in desk.failed[1]
        assert "no readable image with id 99" in desk.failed[2]
        assert "empty" in desk.failed[3]
        assert annotations.refresh().label(1) is None
        other.execute("DROP TRIGGER full")
        other.commit()
        other.close()
        desk.take(work(label(4, 1, "a"), seen=3), annotations)  # tried again, and the browser has heard
        assert desk.failed == {}
        assert desk.saved is not None
        assert annotations.refresh().label(1) == "a"


@pytest.mark.parametrize("value", [None, {}, "x", {"window": "w", "seen": 0, "decisions": [{"n": "?"}]}, []])
def test_what_the_page_does_not_send_is_no_work(value: object):
    assert read_work(value) is None


def test_work_is_read():
    sent = {"window": "w", "seen": 2, "at": None, "decisions": [{"n": 3, "act": "undo", "id": 4, "of": 1}]}
    assert read_work(sent) == Work("w", 2, None, (Decision(3, "undo", 4, "", 1),))


# ---- which images


@pytest.fixture
def subject(workspace: Workspace, tmp_path: Path):
    dataset = tiny_dataset(workspace, tmp_path / "set")
    return open_run(workspace, tiny_run(workspace, dataset))


def test_suggestions_cover_the_clusters_and_leave_out_what_is_decided(workspace: Workspace, subject):
    with Annotations(subject.dataset) as annotations:
        row = suggested(subject, annotations.refresh(), (), 3)
        assert sorted(CLUSTERS[image - 1] for image in row.ids) == [0, 1, 2]
        assert set(row.reasons.values()) == {"first of its cluster"}
        annotations.label([1, 2, 3, 4], "a")
        annotations.exclude([5])
        now = annotations.refresh()
        row = suggested(subject, now, {6}, 99)
        assert sorted(row.ids) == [7, 8, 9, 10, 11, 12]
        short = Row([7, 9])
        assert refilled(short, 7, subject, now, {12})
        assert sorted(short.ids) == [6, 7, 8, 9, 10, 11]
        annotations.label(range(6, 13), "b")
        assert suggested(subject, annotations.refresh(), (), 5).ids == []
        # Exclusions do not make the clusters others; a name or another cluster does.
        newer = open_run(workspace, subject.analysis.run)
        assert says_the_same(subject, newer)
        ClusterEditor(annotations, subject.analysis.clustering).name(0, "x")
        assert not says_the_same(subject, open_run(workspace, subject.analysis.run))
        assert not says_the_same(None, newer)


def test_selections_and_clusters_begin_with_the_least_sure(subject):
    assert of_cluster(subject, 1).ids == [8, 7, 6, 5]  # 0.65, 0.75, 0.85, 0.95
    assert of_selection(subject, np.array([9, 1, 4, 99]), is_ordered=False).ids == [4, 1, 9]
    assert of_selection(subject, np.array([9, 1, 4]), is_ordered=True).ids == [9, 1, 4]
    long = Row(list(range(100)))
    assert long.around(50) == list(range(42, 78))
    assert long.around(None) == list(range(28))


def test_keys_keep_their_names():
    assert merged_names([], {3: "c", 0: "a"}, {"b": 1, "a": 2}) == ["a", "c", "b"]
    assert merged_names(["b", "a"], {0: "new", 3: "a"}, {"z": 1}) == ["b", "a", "new", "z"]


def test_items_hold_what_is_shown(subject):
    items = Items(subject)
    (item,) = items.of([2, 999], {2: "why"})
    assert (item["title"], item["cluster"], item["reason"]) == ("a/00001.png", 0, "why")
    assert item["sure"] == pytest.approx(SURE[1])
    assert {tile["id"] for tile in item["near"][:2]} == {1, 3}  # four degrees away on either side
    assert item["large"].startswith("/images/set/2?side=720")
    cluster = items.clusters([item])[0]
    assert (cluster["text"], cluster["name"], len(cluster["typical"])) == ("cluster 0", None, 4)
    with Annotations(subject.dataset) as annotations:
        annotations.label([2], "x")
        annotations.exclude([3])
        assert states_of([2, 3, 4], annotations.refresh(), {4}) == [
            [2, "x", False, False],
            [3, None, True, False],
            [4, None, False, True],
        ]


def test_before_training_images_near_the_middle_come_first(workspace: Workspace, tmp_path: Path):
    dataset = tiny_dataset(workspace, tmp_path / "set")
    explore(
        workspace,
        dataset,
        ExplorationSettings(3, MapSettings("pca"), network=replace(FROZEN_HEADS, image_size=48)),
    )
    subject = open_dataset(workspace, workspace.dataset("set"))
    with Annotations(dataset) as annotations:
        row = suggested(subject, annotations.refresh(), (), 3)
        assert set(suggested(subject, annotations.refresh(), row.ids, 3).reasons.values()) == {"unlike those before"}
    rows = subject.rows_of(np.sort(row.ids))
    assert sorted(subject.clusters[rows].tolist()) == [0, 1, 2]
    for found in rows:
        members = np.flatnonzero(subject.clusters == subject.clusters[found])
        assert subject.exploration.distance[found] == subject.exploration.distance[members].min()


# ---- what comes of labels


def test_notes_say_what_speaks_against_the_labels(workspace: Workspace, tmp_path: Path):
    folder = tmp_path / "set"
    dataset = tiny_dataset(workspace, folder)
    (folder / "c" / "copy.png").write_bytes((folder / "c" / "00000.png").read_bytes())
    workspace.import_dataset(str(folder))
    dataset = workspace.dataset("set")
    run = handmade_result(
        workspace, dataset, z=on_circle(list(range(13))), clusters=[*CLUSTERS, 2], sure=[*SURE, 0.9], count=3
    )
    run.write_description({**run.description(), "manifest_version": dataset.version})
    subject = open_run(workspace, run)
    with Annotations(dataset) as annotations:
        assert len(given_labels(subject, annotations)) == 0
        annotations.label([1, 2, 3, 4], "cat")
        annotations.label([9], "dog")
        annotations.label([13], "fox")
        given = given_labels(subject, annotations)
        assert (len(given), given.moved) == (6, 0)
        text = " ".join(given.notes)
        assert "The same picture has two labels: c/00000.png is 'dog' and c/copy.png is 'fox'" in text
        assert "the cluster that is left for: 'fox'" in text
        assert "Fewer than 4 labels: 'dog', 'fox'" in text
        # What a person moved into a named cluster counts only when asked for.
        editor = ClusterEditor(annotations, subject.analysis.clustering)
        editor.name(1, "bird")
        editor.move([10, 1], 1)
        assert (len(given_labels(subject, annotations)), given_labels(subject, annotations).moved) == (6, 1)
        with_moves = given_labels(subject, annotations, with_moves=True)
        assert dict(zip(with_moves.ids.tolist(), with_moves.names, strict=True))[10] == "bird"
        assert len(with_moves) == 7


def test_jobs_and_runs_of_a_family_are_found():
    arguments = semi_arguments("set", "one", with_moves=True)
    assert arguments == ["set", "--method", "semi", "--parent", "one", "--labels", "workspace+moved"]
    other = new_job(["train", "set"], "set", "app")
    mine = new_job(["train", *arguments], "set", "app")
    assert job_of_parent([other, mine], "one") is mine
    assert job_of_parent([other, mine], "two") is None
    assert job_of_parent([mine.ending("finished")], "one") is None
    assert job_of_parent([mine.ending("failed", "why")], "one").error == "why"
    lines = [
        RunLine(run, "set", "u", run, "", "", {}, parent)
        for run, parent in (("one", None), ("two", "one"), ("three", "one"), ("lost", "gone"))
    ]
    assert family_of(lines, "one") == ("one", "three")
    assert family_of(lines, "two") == ("one", "two")
    assert family_of(lines, "lost") is None
    assert family_of(lines[:1], "one") is None


def test_changes_name_the_images_that_moved_and_the_labels_that_are_followed(workspace: Workspace, subject):
    after = [0, 0, 0, 1, 1, 1, 1, 1, 2, 1, 1, 2]
    child = handmade_result(
        workspace, subject.dataset, z=on_circle(list(range(12))), clusters=after, sure=SURE, count=3, name="child"
    )
    child.write_description({**child.description(), "names": {"0": "cat", "1": "dog"}, "parent": "tiny-run"})
    with Annotations(subject.dataset) as annotations:
        annotations.label([1, 2, 5], "cat")
        annotations.label([6, 10, 11], "dog")
        found = changes_between(subject, open_run(workspace, child), annotations)
    assert [(move.before, move.after, move.ids.tolist()) for move in found.moves] == [(2, 1, [10, 11]), (0, 1, [4])]
    # cat: 1 and 2 lie in cluster 0 in both, 5 in neither; dog: 6 in both, 10 and 11 only now.
    assert (found.labels, found.followed_before, found.followed) == (6, 3, 5)
    same = compare_runs(np.arange(3), np.arange(3), np.arange(3), np.arange(3))
    assert moves_of(same) == ()
