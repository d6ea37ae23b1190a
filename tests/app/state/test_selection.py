"""Selection of the dataset and run that all pages show."""

from __future__ import annotations

import pytest

from app.state.selection import Selection, SelectionRequest, resolve_selection

RUNS = {"a-1": "a", "b-1": "b", "a-2": "a", "gone-1": "gone"}


@pytest.mark.parametrize(
    ("requested", "chosen"),
    [
        (SelectionRequest(), Selection("a", "a-2")),  # the newest run whose dataset exists
        (SelectionRequest("b"), Selection("b", "b-1")),
        (SelectionRequest("c"), Selection("c", None)),
        (SelectionRequest("a", "a-1"), Selection("a", "a-1")),
        (SelectionRequest(None, "b-1"), Selection("b", "b-1")),
        (SelectionRequest("a", "b-1"), Selection("a", "a-2")),  # the run belongs to another dataset
        (SelectionRequest("a", ""), Selection("a", None)),  # no run, as requested
        (SelectionRequest("gone", "gone-1"), Selection("a", "a-2")),
        (SelectionRequest("nowhere", "a-1"), Selection("a", "a-1")),
        (SelectionRequest(None, "nothing"), Selection("a", "a-2")),
    ],
)
def test_resolve_selection_returns_existing_dataset_and_run(requested: SelectionRequest, chosen: Selection):
    assert resolve_selection(requested, ["a", "b", "c"], RUNS) == chosen


def test_resolve_selection_without_datasets_is_empty():
    assert resolve_selection(SelectionRequest("a", "a-1"), [], RUNS) == Selection(None, None)
    assert resolve_selection(SelectionRequest(), ["c"], {}) == Selection("c", None)
