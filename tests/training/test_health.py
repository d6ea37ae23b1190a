"""Warnings about runs that go wrong."""

from __future__ import annotations

import pytest

from crlc.training.health import find_batch_warnings, find_warnings

GOOD = {"cluster_information": 0.5, "clusters": 10, "clusters_found": 10, "largest_share": 0.2}


@pytest.mark.parametrize(
    ("change", "kind", "fact"),
    [
        ({"cluster_information": 0.01}, "stalled", "0.01"),
        ({"largest_share": 0.8}, "collapse", "80%"),
        ({"clusters_found": 7}, "dead-clusters", "3 of 10"),
    ],
)
def test_find_warnings_names_the_problem_with_its_number(change: dict[str, float], kind: str, fact: str):
    (warning,) = find_warnings({**GOOD, **change}, progress=0.5)
    assert warning.kind == kind
    assert fact in warning.text
    assert set(warning.to_json()) == {"kind", "text", "advice"}
    assert find_warnings({**GOOD, **change}, progress=0.2) == []


def test_find_warnings_returns_none_for_good_runs_and_stages_without_clusters():
    assert find_warnings(GOOD, progress=1.0) == []
    assert find_warnings({"cluster_information": None}, progress=1.0) == []
    assert find_warnings({**GOOD, "clusters": 2, "clusters_found": 2, "largest_share": 0.9}, progress=1.0) == []


def test_find_batch_warnings_names_both_numbers():
    (warning,) = find_batch_warnings(256, images=100, available=50)
    assert warning.kind == "small-batch"
    assert "100" in warning.text
    assert "256" in warning.text
    assert find_batch_warnings(256, images=256, available=256) == []
