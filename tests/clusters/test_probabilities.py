"""Cluster probabilities after merges, splits and moves, compared with values computed by hand."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from crlc.clusters.probabilities import (
    MISSING,
    apply_edits_to_probabilities,
    find_second_best,
    merge_probabilities,
)
from tests.fixtures.export_run import Q


def test_merge_probabilities_adds_clusters_and_ignores_those_made_by_a_split():
    q = np.array([[0.5, 0.3, 0.2]], np.float32)
    # Part 3 of a cluster was merged into 1: the network has no output for it.
    assert_allclose(merge_probabilities(q, {2: 0, 3: 1}), [[0.7, 0.3, 0]])
    assert_allclose(q, [[0.5, 0.3, 0.2]])


def test_apply_edits_to_probabilities_adds_merged_and_moves_edited_ones():
    q = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], np.float32)
    # The user merged clusters 1 and 2, and moved the third image from 0 to the new cluster 3.
    edited = apply_edits_to_probabilities(q, np.array([0, 2, 0]), np.array([0, 1, 3]), {2: 1}, 4)
    np.testing.assert_allclose(edited, [[0.5, 0.5, 0, 0], [0.1, 0.9, 0, 0], [0, 0.4, 0, 0.6]])


def test_find_second_best_adds_probabilities_of_merged_clusters():
    second, probability = find_second_best(Q.copy(), {2: 1}, np.array([0, 0, 1, 1, 1]))
    assert second.tolist() == [1, 1, 0, 0, 0]
    assert_allclose(probability, [0.4, 0.5, 0.2, 0.05, 0.3])


def test_find_second_best_leaves_out_a_split_cluster_merged_elsewhere():
    # Part 3 of cluster 2 was merged into 0: the image is in 0, the model predicted 2.
    second, probability = find_second_best(Q[4:].copy(), {3: 0}, np.array([0]), np.array([2]))
    assert second.tolist() == [1]
    assert_allclose(probability, [0.3])


def test_find_second_best_is_missing_without_another_cluster():
    second, probability = find_second_best(Q.copy(), {1: 0, 2: 0}, np.zeros(5, np.int32))
    assert second.tolist() == [MISSING] * 5
    assert np.isnan(probability).all()
