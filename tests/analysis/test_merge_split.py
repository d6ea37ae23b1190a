"""Suggestions to merge and split clusters with a known answer, and splits by k-means."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.cluster_pairs import compute_cluster_pairs
from crlc.analysis.merge_split import split_cluster, suggest_merges, suggest_splits
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.errors import UsageError
from tests.fixtures.features import make_blobs, make_probabilities


def test_merge_is_suggested_for_a_group_in_two_clusters():
    features, blob = make_blobs([60, 60, 60], np.eye(8)[:3])
    clusters = blob.copy()
    clusters[blob == 0] = np.where(np.arange(60) % 3 == 0, 3, 0)  # a third of blob 0 is cluster 3, at random
    graph = build_neighbour_graph(features, 8)
    q = make_probabilities(clusters, 4)
    q[(clusters == 3)] = [0.4, 0.1, 0.1, 0.4]
    found = suggest_merges(compute_cluster_pairs(q, features, clusters, graph))
    assert len(found) == 1
    best = found[0]
    assert (best.first, best.second, best.first_size, best.second_size) == (0, 3, 40, 20)
    assert best.mixing == pytest.approx(1, abs=0.1)
    assert best.similarity > 0.99
    assert best.shared == pytest.approx((40 * 0.1 / 3 + 20 * 0.4) / 60)
    # Of 60 images each has 8 neighbours; those from 0 in 3 and from 3 in 0 were counted by a loop.
    crossing = sum(clusters[other] != clusters[row] for row in range(60) for other in graph.positions[row])
    assert best.crossing == pytest.approx(crossing / (60 * 8))


def test_split_is_suggested_for_two_groups_in_one_cluster():
    centres = np.eye(16)[:3]
    features, blob = make_blobs([80, 40, 100], centres)
    clusters = np.array([0, 0, 1])[blob]
    found = suggest_splits(features, clusters, build_neighbour_graph(features, 8))
    assert [suggestion.cluster for suggestion in found] == [0]
    only = found[0]
    assert only.separation > 0.8
    assert only.sizes == (80, 40)
    assert only.crossing == 0
    assert [int(blob[row]) for row in only.examples] == [0, 1]
    assert only.similarity < 0.3


@pytest.mark.parametrize("size", [21, 100, 900])
@pytest.mark.parametrize("dimensions", [3, 128])
def test_split_is_not_suggested_for_one_group(size: int, dimensions: int):
    features, clusters = make_blobs([size], np.eye(dimensions)[:1], spread=0.3)
    assert suggest_splits(features, clusters, build_neighbour_graph(features, 5)) == []


def test_split_is_not_suggested_for_few_images_copies_or_outliers():
    few, clusters = make_blobs([9, 9], np.eye(4)[:2])
    assert suggest_splits(few, np.zeros_like(clusters), build_neighbour_graph(few, 3)) == []
    copies = np.ones((40, 3))
    assert suggest_splits(copies, np.zeros(40, np.int64), build_neighbour_graph(copies, 3)) == []
    far, _ = make_blobs([100, 4], np.eye(8)[:2])
    assert suggest_splits(far, np.zeros(104, np.int64), build_neighbour_graph(far, 3)) == []


def test_split_is_suggested_for_a_large_cluster_from_a_sample():
    features, _ = make_blobs([9000, 3000], np.eye(6)[:2])
    found = suggest_splits(features, np.zeros(12_000, np.int64), build_neighbour_graph(features, 3, exact=False))
    assert found[0].sizes == (9000, 3000)


def test_split_cluster_puts_the_largest_part_first():
    features = np.array([[0, 0], [9, 9], [0, 1], [1, 0], [9, 8], [-9, 9]], np.float32)
    assert split_cluster(features, 3).tolist() == [0, 1, 0, 0, 1, 2]


def test_split_cluster_is_reproducible_and_allows_one_image_per_part():
    features = np.random.default_rng(0).normal(size=(40, 5))
    np.testing.assert_array_equal(split_cluster(features, 4, seed=3), split_cluster(features, 4, seed=3))
    assert sorted(split_cluster(features[:5], 5).tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("features", "parts", "words"),
    [
        (np.eye(4), 1, "parts=1 .* 4 images.* from 2"),
        (np.eye(4), 0, "parts=0 "),
        (np.eye(4), 5, "parts=5 "),
        (np.zeros((0, 3)), 2, "parts=2 .* 0 images"),
        (np.ones((6, 3)), 2, "parts=2 .* 6 images"),
    ],
)
def test_split_cluster_refuses_more_parts_than_different_images(features: np.ndarray, parts: int, words: str):
    with pytest.raises(UsageError, match=words):
        split_cluster(features, parts)
