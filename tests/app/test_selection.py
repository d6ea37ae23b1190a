"""Which data set and run are chosen."""

from __future__ import annotations

import pytest

from app.state.selection import Selection, Wish, fitting

RUNS = {"a-1": "a", "b-1": "b", "a-2": "a", "gone-1": "gone"}


@pytest.mark.parametrize(
    ("wish", "chosen"),
    [
        (Wish(), Selection("a", "a-2")),  # the newest run whose data set is there
        (Wish("b"), Selection("b", "b-1")),
        (Wish("c"), Selection("c", None)),
        (Wish("a", "a-1"), Selection("a", "a-1")),
        (Wish(None, "b-1"), Selection("b", "b-1")),
        (Wish("a", "b-1"), Selection("a", "a-2")),  # of another data set
        (Wish("a", ""), Selection("a", None)),  # none, and meant so
        (Wish("gone", "gone-1"), Selection("a", "a-2")),
        (Wish("nowhere", "a-1"), Selection("a", "a-1")),
        (Wish(None, "nothing"), Selection("a", "a-2")),
    ],
)
def test_what_there_is_of_what_was_wished_for(wish: Wish, chosen: Selection):
    assert fitting(wish, ["a", "b", "c"], RUNS) == chosen


def test_without_data_sets_nothing_is_chosen():
    assert fitting(Wish("a", "a-1"), [], RUNS) == Selection(None, None)
    assert fitting(Wish(), ["c"], {}) == Selection("c", None)
