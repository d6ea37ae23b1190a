"""Suggestions on clusters made so that the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.cluster_pairs import cluster_pairs
from crlc.analysis.labelling import images_to_label
from crlc.analysis.neighbours import neighbour_graph
from crlc.analysis.quality import image_quality
from crlc.analysis.suggestions import merge_suggestions, split_suggestions
from crlc.errors import UsageError


def blobs(sizes: list[int], centres: np.ndarray, spread: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows around centres, and which centre each is from."""
    random = np.random.default_rng(seed)
    blob = np.repeat(np.arange(len(sizes)), sizes)
    features = centres[blob] + spread * random.normal(size=(len(blob), centres.shape[1]))
    return features / np.linalg.norm(features, axis=1, keepdims=True), blob


def sure(clusters: np.ndarray, count: int, sureness: float = 0.9) -> np.ndarray:
    q = np.full((len(clusters), count), (1 - sureness) / (count - 1))
    q[np.arange(len(clusters)), clusters] = sureness
    return q


def test_a_blob_that_was_cut_is_suggested_for_merging():
    features, blob = blobs([60, 60, 60], np.eye(8)[:3])
    clusters = blob.copy()
    clusters[blob == 0] = np.where(np.arange(60) % 3 == 0, 3, 0)  # a third of blob 0 is called 3, at random
    graph = neighbour_graph(features, 8)
    q = sure(clusters, 4)
    q[(clusters == 3)] = [0.4, 0.1, 0.1, 0.4]
    found = merge_suggestions(cluster_pairs(q, features, clusters, graph))
    assert len(found) == 1
    best = found[0]
    assert (best.first, best.second, best.first_size, best.second_size) == (0, 3, 40, 20)
    assert best.mixing == pytest.approx(1, abs=0.1)
    assert best.similarity > 0.99
    assert best.shared == pytest.approx((40 * 0.1 / 3 + 20 * 0.4) / 60)
    # Of 60 images each has 8 neighbours; those from 0 in 3 and from 3 in 0 were counted by a plain loop.
    crossing = sum(clusters[other] != clusters[row] for row in range(60) for other in graph.positions[row])
    assert best.crossing == pytest.approx(crossing / (60 * 8))


def test_two_blobs_under_one_name_are_suggested_for_splitting():
    centres = np.eye(16)[:3]
    features, blob = blobs([80, 40, 100], centres)
    clusters = np.array([0, 0, 1])[blob]
    found = split_suggestions(features, clusters, neighbour_graph(features, 8))
    assert [suggestion.cluster for suggestion in found] == [0]
    only = found[0]
    assert only.separation > 0.8
    assert only.sizes == (80, 40)
    assert only.crossing == 0
    assert [int(blob[row]) for row in only.examples] == [0, 1]
    assert only.similarity < 0.3


@pytest.mark.parametrize("size", [21, 100, 900])
@pytest.mark.parametrize("dimensions", [3, 128])
def test_one_blob_is_left_alone(size: int, dimensions: int):
    features, clusters = blobs([size], np.eye(dimensions)[:1], spread=0.3)
    assert split_suggestions(features, clusters, neighbour_graph(features, 5)) == []


def test_few_images_copies_and_a_handful_of_odd_ones_are_no_second_group():
    few, clusters = blobs([9, 9], np.eye(4)[:2])
    assert split_suggestions(few, np.zeros_like(clusters), neighbour_graph(few, 3)) == []
    copies = np.ones((40, 3))
    assert split_suggestions(copies, np.zeros(40, np.int64), neighbour_graph(copies, 3)) == []
    odd, _ = blobs([100, 4], np.eye(8)[:2])
    assert split_suggestions(odd, np.zeros(104, np.int64), neighbour_graph(odd, 3)) == []


def test_a_large_cluster_is_sampled():
    features, _ = blobs([9000, 3000], np.eye(6)[:2])
    found = split_suggestions(features, np.zeros(12_000, np.int64), neighbour_graph(features, 3, exact=False))
    assert found[0].sizes == (9000, 3000)


def labelling_case() -> tuple[np.ndarray, np.ndarray, object]:
    features, clusters = blobs([100, 40, 20], np.eye(8)[:3])
    quality = image_quality(sure(clusters, 3), features, clusters, neighbour_graph(features, 5))
    return features, clusters, quality


def test_every_cluster_first_and_its_most_typical_image():
    features, clusters, quality = labelling_case()
    found = images_to_label(features, clusters, quality, 3)
    assert clusters[found.rows].tolist() == [0, 1, 2]
    for row in found.rows:
        assert quality.typicality[row] == quality.typicality[clusters == clusters[row]].max()
    assert set(found.reasons) == {"first of its cluster"}


def test_then_by_size_without_repeats_and_the_same_every_time():
    features, clusters, quality = labelling_case()
    found = images_to_label(features, clusters, quality, 16)
    assert len(set(found.rows.tolist())) == 16
    # d'Hondt over 100, 40 and 20 images (no impurity) after one each: 16 seats are 10, 4, 2.
    assert np.bincount(clusters[found.rows]).tolist() == [10, 4, 2]
    assert images_to_label(features, clusters, quality, 16).rows.tolist() == found.rows.tolist()
    assert images_to_label(features, clusters, quality, 5).rows.tolist() == found.rows[:5].tolist()


def test_labelled_and_excluded_images_are_not_suggested():
    features, clusters, quality = labelling_case()
    labelled, left_out = clusters == 0, clusters == 1
    found = images_to_label(features, clusters, quality, 30, labelled=labelled, left_out=left_out)
    assert sorted(found.rows.tolist()) == list(range(140, 160))  # all that is left
    nothing = images_to_label(features, clusters, quality, 3, labelled=np.ones(160, dtype=bool))
    assert len(nothing.rows) == 0
    with pytest.raises(UsageError, match="at least 1"):
        images_to_label(features, clusters, quality, 0)


def test_different_ones_are_chosen():
    # One cluster of three tight groups: three labels, one from each.
    features, group = blobs([50, 50, 50], np.eye(5)[:3] + 1, spread=0.02)
    clusters = np.zeros(150, dtype=np.int64)
    quality = image_quality(np.ones((150, 1)), features, clusters, neighbour_graph(features, 5))
    found = images_to_label(features, clusters, quality, 3)
    assert sorted(group[found.rows].tolist()) == [0, 1, 2]
    # With one group labelled, the next two come from the others.
    labelled = group == 1
    assert sorted(group[images_to_label(features, clusters, quality, 2, labelled=labelled).rows].tolist()) == [0, 2]


def test_impure_clusters_get_more():
    features, clusters = blobs([60, 60], np.eye(8)[:2])
    quality = image_quality(sure(clusters, 2), features, clusters, neighbour_graph(features, 5))
    quality.neighbour_agreement[clusters == 1] = 0.2
    found = images_to_label(features, clusters, quality, 12)
    counts = np.bincount(clusters[found.rows])
    assert counts[1] > counts[0] >= 3
