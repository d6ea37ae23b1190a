"""Suggestions of images to label, on clusters with a known answer."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.label_suggestions import REPRESENTATIVE, suggest_images_to_label
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.analysis.quality import ImageQuality, compute_image_quality
from crlc.errors import UsageError
from tests.fixtures.features import make_blobs, make_probabilities


def make_case() -> tuple[np.ndarray, np.ndarray, ImageQuality]:
    features, clusters = make_blobs([100, 40, 20], np.eye(8)[:3])
    quality = compute_image_quality(
        make_probabilities(clusters, 3), features, clusters, build_neighbour_graph(features, 5)
    )
    return features, clusters, quality


def test_suggestions_start_with_the_most_typical_image_of_every_cluster():
    features, clusters, quality = make_case()
    found = suggest_images_to_label(features, clusters, quality, 3)
    assert clusters[found.rows].tolist() == [0, 1, 2]
    for row in found.rows:
        assert quality.typicality[row] == quality.typicality[clusters == clusters[row]].max()
    assert set(found.reasons) == {REPRESENTATIVE}


def test_suggestions_are_proportional_to_size_and_deterministic():
    features, clusters, quality = make_case()
    found = suggest_images_to_label(features, clusters, quality, 16)
    assert len(set(found.rows.tolist())) == 16
    # d'Hondt over 100, 40 and 20 images (no impurity) after one each: 16 seats are 10, 4, 2.
    assert np.bincount(clusters[found.rows]).tolist() == [10, 4, 2]
    assert suggest_images_to_label(features, clusters, quality, 16).rows.tolist() == found.rows.tolist()
    assert suggest_images_to_label(features, clusters, quality, 5).rows.tolist() == found.rows[:5].tolist()


def test_suggestions_leave_out_labelled_and_excluded_images():
    features, clusters, quality = make_case()
    labelled, left_out = clusters == 0, clusters == 1
    found = suggest_images_to_label(features, clusters, quality, 30, labelled=labelled, excluded=left_out)
    assert sorted(found.rows.tolist()) == list(range(140, 160))  # all remaining images
    nothing = suggest_images_to_label(features, clusters, quality, 3, labelled=np.ones(160, dtype=bool))
    assert len(nothing.rows) == 0
    with pytest.raises(UsageError, match="at least 1"):
        suggest_images_to_label(features, clusters, quality, 0)


def test_suggestions_are_dissimilar_within_a_cluster():
    # One cluster of three tight groups: three labels, one from each.
    features, group = make_blobs([50, 50, 50], np.eye(5)[:3] + 1, spread=0.02)
    clusters = np.zeros(150, dtype=np.int64)
    quality = compute_image_quality(np.ones((150, 1)), features, clusters, build_neighbour_graph(features, 5))
    found = suggest_images_to_label(features, clusters, quality, 3)
    assert sorted(group[found.rows].tolist()) == [0, 1, 2]
    # With one group labelled, the next two come from the others.
    labelled = group == 1
    assert sorted(group[suggest_images_to_label(features, clusters, quality, 2, labelled=labelled).rows].tolist()) == [
        0,
        2,
    ]


def test_suggestions_prefer_impure_clusters():
    features, clusters = make_blobs([60, 60], np.eye(8)[:2])
    quality = compute_image_quality(
        make_probabilities(clusters, 2), features, clusters, build_neighbour_graph(features, 5)
    )
    quality.neighbour_agreement[clusters == 1] = 0.2
    found = suggest_images_to_label(features, clusters, quality, 12)
    counts = np.bincount(clusters[found.rows])
    assert counts[1] > counts[0] >= 3
