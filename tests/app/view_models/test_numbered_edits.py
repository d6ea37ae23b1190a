"""Numbered edits from the browser: each is applied once, in order."""

from __future__ import annotations

import pytest

from app.view_models.numbered_edits import CardEdit, EditSession, ReviewEdit, parse_card_edit, parse_review_edit


def test_edit_session_returns_each_edit_once():
    session = EditSession()
    first = {"n": 1, "cluster": 3, "name": "cat"}
    second = {"n": 2, "selected": [4, 1]}

    def apply(window: str, *edits: dict[str, object]) -> list[CardEdit]:
        return list(session.iterate_new_edits({"window": window, "edits": edits}, parse_card_edit))

    assert apply("a", first) == [CardEdit(1, 3, "cat")]
    # The browser sends an edit again until it is confirmed, together with later ones.
    assert apply("a", second, first) == [CardEdit(2, selected=(1, 4))]
    assert apply("a", second) == []
    assert session.answered == 2
    # Another window numbers its edits from 1 again.
    assert apply("b", first) == [CardEdit(1, 3, "cat")]


@pytest.mark.parametrize("value", [None, {}, {"window": "a", "edits": [{"n": "x"}]}, {"window": "a", "edits": 3}])
def test_edit_session_ignores_values_that_it_cannot_read(value):
    session = EditSession()
    assert list(session.iterate_new_edits(value, parse_card_edit)) == []
    assert session.answered == 0


def test_review_edits_are_labels_or_names_of_clusters():
    edits = [
        {"n": 1, "name": "dog", "ids": [4, 2]},
        {"n": 2, "name": "cat", "cluster": 3, "is_before": True},
        {"n": 3, "name": "", "ids": [4]},
    ]
    assert list(EditSession().iterate_new_edits({"window": "a", "edits": edits}, parse_review_edit)) == [
        ReviewEdit(1, "dog", (4, 2)),
        ReviewEdit(2, "cat", cluster=3, is_before=True),
        ReviewEdit(3, "", (4,)),
    ]


def test_edit_that_was_interrupted_is_applied_again():
    session = EditSession()
    value = {"window": "a", "edits": [{"n": 1, "cluster": 3, "name": "cat"}, {"n": 2, "cluster": 4, "name": "dog"}]}
    edits = session.iterate_new_edits(value, parse_card_edit)
    assert [next(edits).name, next(edits).name] == ["cat", "dog"]
    edits.close()  # Streamlit runs the page again before the second edit is stored
    assert session.answered == 1
    assert [edit.name for edit in session.iterate_new_edits(value, parse_card_edit)] == ["dog"]
