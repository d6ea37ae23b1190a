"""Comparison of two clusterings, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.comparison import MatchedClusters, compare_clusterings
from crlc.errors import UsageError


def test_comparison_matches_clusters_and_lists_reassigned_images():
    # The second run has one more image and another order; clusters 0 and 1 are swapped, and image 30 is reassigned.
    first_ids, first = np.array([10, 20, 30, 40, 50]), np.array([0, 0, 0, 1, 1])
    second_ids, second = np.array([50, 40, 30, 20, 10, 60]), np.array([0, 0, 0, 1, 1, 2])
    found = compare_clusterings(first_ids, first, second_ids, second)
    assert (found.images, found.only_first, found.only_second) == (5, 0, 1)
    assert found.matched == (MatchedClusters(0, 1, 3, 2, 2, 2 / 3), MatchedClusters(1, 0, 2, 3, 2, 2 / 3))
    assert found.reassigned_ids.tolist() == [30]
    assert (found.reassigned_from.tolist(), found.reassigned_to.tolist()) == ([0], [0])
    assert found.same_share == pytest.approx(0.8)
    # Two pairs share a cluster in both runs (10-20, 40-50), and 4 of 10 pairs in each run: (2 - 1.6) / (4 - 1.6).
    assert found.ari == pytest.approx((2 - 1.6) / (4 - 1.6))


def test_comparison_of_clusters_that_split_or_disappeared():
    before, after = np.array([0, 0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 0, 2, 0, 0])
    found = compare_clusterings(np.arange(7), before, np.arange(7), after)
    assert found.matched == (
        MatchedClusters(0, 0, 5, 6, 4, 4 / 7),
        MatchedClusters(1, -1, 2, 0, 0, 0.0),
        MatchedClusters(-1, 2, 0, 1, 0, 0.0),
    )
    assert found.reassigned_ids.tolist() == [4, 5, 6]
    with pytest.raises(UsageError, match="no image"):
        compare_clusterings(np.array([1]), np.array([0]), np.array([2]), np.array([0]))
