"""Quality of clusterings that are small enough to check by hand, and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.cluster_pairs import compute_cluster_pairs
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.analysis.quality import (
    compute_cluster_quality,
    compute_image_quality,
    compute_run_quality,
    compute_silhouette,
    compute_subhead_agreement,
)
from crlc.errors import UsageError
from tests.fixtures.features import make_clustered_features
from tests.fixtures.six_images import CLUSTERS, GRAPH, Q, Z


def test_image_quality_matches_values_by_hand():
    found = compute_image_quality(Q, Z, CLUSTERS, GRAPH)
    np.testing.assert_allclose(found.confidence, [0.9, 0.8, 0.5, 0.7, 0.9, 0.6])
    assert found.second_cluster.tolist() == [1, 1, 1, 2, 0, 0]
    np.testing.assert_allclose(found.margin, [0.84, 0.65, 0.05, 0.5, 0.85, 0.3], atol=1e-6)
    np.testing.assert_allclose(found.neighbour_agreement, [1, 1, 0, 0.5, 0.5, 0])
    np.testing.assert_allclose(found.typicality, [0.8, 0.7, 0, 0.45, 0.45, 0], atol=1e-6)
    # Mean distances are 0.2, 0.3, 0.3, 0.15, 0.25 and 1. All clusters are small, so the scores are relative to the
    # median of all images, 0.275.
    np.testing.assert_allclose(found.outlier_score, np.array([0.2, 0.3, 0.3, 0.15, 0.25, 1]) / 0.275, rtol=1e-5)
    # Image 0: to 1: 0, to 2: 0.4, mean 0.2; to cluster 1: 1; to cluster 2: 2. So (1 - 0.2) / 1.
    # Image 2: to 0 and 1: 0.4; to 3 and 4: 0.2. So (0.2 - 0.4) / 0.4. Image 5 is alone.
    # Image 3: to 4: 0; to cluster 0: (1 + 1 + 0.2) / 3; so 1.
    np.testing.assert_allclose(found.silhouette, [0.8, 0.8, -0.5, 1, 1, 0], atol=1e-6)
    assert found.subhead_agreement is None


def test_cluster_quality_matches_values_by_hand():
    images = compute_image_quality(Q, Z, CLUSTERS, GRAPH)
    pairs = compute_cluster_pairs(Q, Z, CLUSTERS, GRAPH)
    assert pairs.links.tolist() == [[4, 2, 0], [2, 2, 0], [1, 1, 0]]
    np.testing.assert_allclose(pairs.shared_probability[0], [2.2 / 3, 0.66 / 3, 0.14 / 3], rtol=1e-5)
    # Means of 0 and 1 point along (2.6, 0.8) and (0, 1).
    assert pairs.similarity[0, 1] == pytest.approx(0.8 / np.hypot(2.6, 0.8))
    # 0 to 1: 2 of 6 links where 2/5 are expected; 1 to 0: 2 of 4 where 3/5 are; weighted by 3 and 2 images.
    mixing = (3 * (2 / 6) / (2 / 5) + 2 * (2 / 4) / (3 / 5)) / 5
    assert pairs.mixing[0, 1] == pairs.mixing[1, 0] == pytest.approx(mixing)
    found = compute_cluster_quality(images, CLUSTERS, pairs)
    assert found.size.tolist() == [3, 2, 1]
    np.testing.assert_allclose(found.confidence, [2.2 / 3, 0.8, 0.6], rtol=1e-6)
    np.testing.assert_allclose(found.neighbour_agreement, [2 / 3, 0.5, 0], rtol=1e-6)
    assert found.closest[:2].tolist() == [1, 0]
    assert found.closest_mixing[0] == pytest.approx(mixing)


def test_run_quality_matches_values_by_hand():
    found = compute_run_quality(compute_image_quality(Q, Z, CLUSTERS, GRAPH), CLUSTERS)
    assert (found.images, found.clusters, found.largest_share) == (6, 3, 0.5)
    assert found.confidence == pytest.approx(4.4 / 6)
    assert found.neighbour_agreement == pytest.approx(0.5)
    assert found.silhouette == pytest.approx(3.1 / 6)
    assert found.subhead_agreement is None


def test_subhead_agreement_matches_clusters_first():
    selected = [0, 0, 0, 1, 1, 2]
    renamed = [2, 2, 2, 0, 0, 1]
    one_differs = [1, 1, 0, 0, 0, 2]
    found = compute_subhead_agreement(np.array([renamed, selected, one_differs]), selected=1)
    np.testing.assert_allclose(found, [1, 1, 0.5, 1, 1, 1])
    assert compute_subhead_agreement(np.array([selected]), 0) is None
    # More clusters than the selected subhead has: a cluster without a match agrees with none.
    np.testing.assert_allclose(compute_subhead_agreement(np.array([[0, 0, 0, 0], [0, 0, 0, 3]]), 0), [1, 1, 1, 0])


def test_silhouette_matches_scikit_learn():
    from sklearn.metrics import silhouette_samples

    features = make_clustered_features(900)
    clusters = np.random.default_rng(0).integers(5, size=900) * 2  # with gaps in the numbers
    clusters[7] = 11
    np.testing.assert_allclose(
        compute_silhouette(features, clusters), silhouette_samples(features, clusters, metric="cosine"), atol=1e-5
    )
    many = np.tile(features, (40, 1))
    assert compute_silhouette(many, np.tile(clusters, 40)).shape == (36_000,)
    assert not compute_silhouette(features, np.zeros(900, dtype=np.int64)).any()


def test_outlier_score_is_relative_to_the_cluster():
    random = np.random.default_rng(0)
    dense = np.array([1, 0, 0]) + 0.06 * random.normal(size=(40, 3))
    loose = np.array([0, 1, 0]) + 0.3 * random.normal(size=(40, 3))
    far = np.array([[1, 0, 0.3]])
    features = np.concatenate([dense, loose, far])
    clusters = np.array([0] * 40 + [1] * 40 + [0])
    found = compute_image_quality(np.eye(2)[clusters], features, clusters, build_neighbour_graph(features, 5))
    assert found.outlier_score.argmax() == 80
    assert found.outlier_score[80] > 5
    assert np.median(found.outlier_score[:40]) == pytest.approx(1, abs=0.05)
    assert np.median(found.outlier_score[40:80]) == pytest.approx(1, abs=0.05)


def test_outlier_scores_of_copies_are_finite():
    features = np.concatenate([np.ones((30, 3)), make_clustered_features(30, dimensions=3)])
    clusters = np.array([0] * 30 + [1] * 30)
    found = compute_image_quality(np.eye(2)[clusters], features, clusters, build_neighbour_graph(features, 4))
    assert np.isfinite(found.outlier_score).all()
    assert found.outlier_score[:30].max() < 1


def test_cluster_quality_includes_clusters_that_the_user_added():
    clusters = np.array([0, 0, 4, 4, 4, 4])  # the model has three clusters; 4 was added
    images = compute_image_quality(Q, Z, clusters, GRAPH)
    found = compute_cluster_quality(images, clusters, compute_cluster_pairs(Q, Z, clusters, GRAPH))
    assert found.size.tolist() == [2, 0, 0, 0, 4]
    assert found.closest.tolist() == [4, -1, -1, -1, 0]
    assert np.isnan(found.confidence[1:4]).all()


def test_cluster_quality_of_a_single_cluster_has_no_closest_cluster():
    clusters = np.zeros(6, dtype=np.int64)
    images = compute_image_quality(np.ones((6, 1)), Z, clusters, GRAPH)
    assert images.margin.tolist() == [1] * 6
    found = compute_cluster_quality(images, clusters, compute_cluster_pairs(np.ones((6, 1)), Z, clusters, GRAPH))
    assert found.closest.tolist() == [-1]


def test_image_quality_refuses_arrays_of_different_lengths():
    with pytest.raises(UsageError, match="q 6, z 5, clusters 6"):
        compute_image_quality(Q, Z[:5], CLUSTERS, GRAPH)
