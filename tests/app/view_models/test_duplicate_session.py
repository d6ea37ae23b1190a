"""Decisions about duplicates: written once, undone in order, also after other changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from app.view_models.duplicate_session import DuplicateSession, build_desk_data
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.services.duplicate_review import DuplicateSet, find_duplicate_sets, find_undecided
from crlc.workspace import Workspace
from tests.fixtures.duplicates import save_duplicates


class Desk:
    """The component's part: numbers decisions, and sends those that are not confirmed."""

    def __init__(self, dataset: ImageDataset) -> None:
        self.dataset, self.annotations = dataset, AnnotationStore(dataset)
        self.sets: list[DuplicateSet] = find_duplicate_sets(dataset)
        self.session = DuplicateSession(dataset.name)
        self.edits: list[dict[str, Any]] = []

    def send(self, **edit: object) -> None:
        self.edits.append({"n": len(self.edits) + 1, "group": "", **edit})
        for _ in range(2):  # sent twice: applied once
            value = {"window": "w", "edits": self.edits}
            self.session.apply(value, self.dataset, self.annotations, self.sets)

    @property
    def excluded(self) -> list[int]:
        return self.annotations.refresh().get_excluded_ids().tolist()

    @property
    def undecided(self) -> list[int]:
        found = find_undecided(self.dataset, self.annotations.refresh(), self.sets)
        return [self.sets.index(one) for one in found]


@pytest.fixture
def desk(workspace: Workspace, tmp_path: Path) -> Desk:
    save_duplicates(tmp_path / "set")
    return Desk(workspace.import_dataset(str(tmp_path / "set"))[0])


def test_decisions_are_written_once_and_undone_in_order(desk: Desk):
    near, equal = desk.sets
    desk.send(group=near.key, keep=[near.ids[0]])
    desk.send(group=equal.key, keep=list(equal.ids))
    assert desk.excluded == sorted(near.ids[1:])
    assert desk.undecided == []
    assert desk.session.saved_at is not None
    assert len(desk.annotations.read_history()) == 1
    desk.send(undo=True)
    assert desk.undecided == [1]
    desk.send(undo=True)
    assert (desk.undecided, desk.excluded, desk.session.undone_group) == ([0, 1], [], near.key)
    desk.send(undo=True)
    assert "no decision to undo" in desk.session.message


def test_undo_after_another_change_restores_only_the_group(desk: Desk):
    near, equal = desk.sets
    desk.send(group=near.key, keep=[near.ids[1]])
    desk.annotations.label([equal.ids[0]], "other")  # another page writes to the same log
    desk.send(undo=True)
    assert (desk.undecided, desk.excluded) == ([0, 1], [])
    assert desk.annotations.refresh().get_label(equal.ids[0]) == "other"


def test_all_proposals_are_accepted_and_undone_in_one_step(desk: Desk):
    near, equal = desk.sets
    desk.send(group=near.key, keep=list(near.ids))
    desk.session.exclude_all(desk.dataset, desk.annotations, desk.sets)
    assert (desk.undecided, desk.excluded) == ([], sorted(equal.ids[1:]))
    desk.send(undo=True)
    assert (desk.undecided, desk.excluded) == ([1], [])


def test_a_decision_that_cannot_be_written_is_reported(desk: Desk):
    near, _ = desk.sets
    desk.send(group="gone", keep=[1])
    assert "changed" in desk.session.message
    desk.send(group=near.key, keep=[999])
    assert "must be kept" in desk.session.message
    desk.session.apply("nonsense", desk.dataset, desk.annotations, desk.sets)
    assert (desk.excluded, desk.session.saved_at) == ([], None)
    assert not os.path.exists(desk.dataset.folder / "annotations.sqlite")


def test_desk_data_lists_groups_and_decisions(desk: Desk):
    near, equal = desk.sets
    desk.send(group=near.key, keep=[near.ids[0]])
    data = build_desk_data(desk.dataset, desk.annotations.refresh(), desk.sets, desk.session)
    assert [group["key"] for group in data["groups"]] == [near.key, equal.key]
    assert data["groups"][0]["images"][0][:4] == (near.ids[0], "a.png", 96, 96)
    assert sorted(data["excluded"]) == sorted(near.ids[1:])
    assert (data["undecided"], data["window"], data["answered"]) == ([equal.key], "w", 1)
