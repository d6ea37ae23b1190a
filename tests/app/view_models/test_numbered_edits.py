"""Numbered edits from the browser: each is applied once, in order."""

from __future__ import annotations

import pytest

from app.view_models.numbered_edits import CardEdit, EditSession, ReviewEdit, parse_card_edit, parse_review_edit


def test_edit_session_returns_each_edit_once():
    session = EditSession()
    first = {"n": 1, "cluster": 3, "name": "cat"}
    second = {"n": 2, "selected": [4, 1]}
    assert session.take_new_edits({"window": "a", "edits": [first]}, parse_card_edit) == [CardEdit(1, 3, "cat")]
    # The browser sends an edit again until it is confirmed, together with later ones.
    assert session.take_new_edits({"window": "a", "edits": [second, first]}, parse_card_edit) == [
        CardEdit(2, selected=(1, 4))
    ]
    assert session.take_new_edits({"window": "a", "edits": [second]}, parse_card_edit) == []
    assert session.answered == 2
    # Another window numbers its edits from 1 again.
    assert session.take_new_edits({"window": "b", "edits": [first]}, parse_card_edit) == [CardEdit(1, 3, "cat")]


@pytest.mark.parametrize("value", [None, {}, {"window": "a", "edits": [{"n": "x"}]}, {"window": "a", "edits": 3}])
def test_edit_session_ignores_values_that_it_cannot_read(value):
    session = EditSession()
    assert session.take_new_edits(value, parse_card_edit) == []
    assert session.answered == 0


def test_review_edits_are_labels_or_names_of_clusters():
    edits = [
        {"n": 1, "name": "dog", "ids": [4, 2]},
        {"n": 2, "name": "cat", "cluster": 3, "is_before": True},
        {"n": 3, "name": "", "ids": [4]},
    ]
    assert EditSession().take_new_edits({"window": "a", "edits": edits}, parse_review_edit) == [
        ReviewEdit(1, "dog", (4, 2)),
        ReviewEdit(2, "cat", cluster=3, is_before=True),
        ReviewEdit(3, "", (4,)),
    ]
