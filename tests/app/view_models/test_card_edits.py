"""Edits from the cards of clusters: each is applied once, in order."""

from __future__ import annotations

import pytest

from app.view_models.card_edits import CardEdit, CardSession


def test_card_session_returns_each_edit_once():
    session = CardSession()
    first = {"n": 1, "cluster": 3, "name": "cat"}
    second = {"n": 2, "selected": [4, 1]}
    assert session.take_new_edits({"window": "a", "edits": [first]}) == [CardEdit(1, 3, "cat")]
    # The browser sends an edit again until it is confirmed, together with later ones.
    assert session.take_new_edits({"window": "a", "edits": [second, first]}) == [CardEdit(2, selected=(1, 4))]
    assert session.take_new_edits({"window": "a", "edits": [second]}) == []
    assert session.answered == 2
    # Another window numbers its edits from 1 again.
    assert session.take_new_edits({"window": "b", "edits": [first]}) == [CardEdit(1, 3, "cat")]


@pytest.mark.parametrize("value", [None, {}, {"window": "a", "edits": [{"n": "x"}]}, {"window": "a", "edits": 3}])
def test_card_session_ignores_values_that_it_cannot_read(value):
    session = CardSession()
    assert session.take_new_edits(value) == []
    assert session.answered == 0
