"""Quality of results small enough to check by eye, and against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.cluster_pairs import cluster_pairs
from crlc.analysis.compare import MatchedClusters, compare_runs
from crlc.analysis.nearest import Neighbours
from crlc.analysis.neighbours import neighbour_graph
from crlc.analysis.quality import (
    cluster_quality,
    image_quality,
    matched_to,
    run_quality,
    silhouette,
    subhead_agreement,
)
from crlc.analysis.with_classes import class_report
from crlc.errors import UsageError
from tests.analysis.test_neighbours import clustered

# Six images: 0, 1, 2 in cluster 0, 3, 4 in cluster 1, 5 in cluster 2. Image 2 has its neighbours in cluster 1.
CLUSTERS = np.array([0, 0, 0, 1, 1, 2])
Q = np.array(
    [
        [0.90, 0.06, 0.04],
        [0.80, 0.15, 0.05],
        [0.50, 0.45, 0.05],
        [0.10, 0.70, 0.20],
        [0.05, 0.90, 0.05],
        [0.30, 0.10, 0.60],
    ],
    dtype=np.float32,
)
GRAPH = Neighbours(
    np.array([[1, 2], [0, 2], [3, 4], [4, 2], [3, 2], [0, 3]]),
    np.array([[0.9, 0.7], [0.9, 0.5], [0.8, 0.6], [0.9, 0.8], [0.9, 0.6], [0.2, -0.2]], dtype=np.float32),
)
Z = np.array([[1, 0], [1, 0], [0.6, 0.8], [0, 1], [0, 1], [-1, 0]], dtype=np.float32)


def test_images_by_eye():
    found = image_quality(Q, Z, CLUSTERS, GRAPH)
    np.testing.assert_allclose(found.confidence, [0.9, 0.8, 0.5, 0.7, 0.9, 0.6])
    assert found.second.tolist() == [1, 1, 1, 2, 0, 0]
    np.testing.assert_allclose(found.margin, [0.84, 0.65, 0.05, 0.5, 0.85, 0.3], atol=1e-6)
    np.testing.assert_allclose(found.neighbour_agreement, [1, 1, 0, 0.5, 0.5, 0])
    np.testing.assert_allclose(found.typicality, [0.8, 0.7, 0, 0.45, 0.45, 0], atol=1e-6)
    # Mean distances 0.2, 0.3, 0.3, 0.15, 0.25, 1; all clusters are small, so over the median of all, 0.275.
    np.testing.assert_allclose(found.outlier, np.array([0.2, 0.3, 0.3, 0.15, 0.25, 1]) / 0.275, rtol=1e-5)
    # Image 0: to 1: 0, to 2: 0.4, mean 0.2; to cluster 1: 1; to cluster 2: 2. So (1 - 0.2) / 1.
    # Image 2: to 0 and 1: 0.4; to 3 and 4: 0.2. So (0.2 - 0.4) / 0.4. Image 5 is alone.
    # Image 3: to 4: 0; to cluster 0: (1 + 1 + 0.2) / 3; so 1.
    np.testing.assert_allclose(found.silhouette, [0.8, 0.8, -0.5, 1, 1, 0], atol=1e-6)
    assert found.subhead_agreement is None


def test_clusters_by_eye():
    images = image_quality(Q, Z, CLUSTERS, GRAPH)
    pairs = cluster_pairs(Q, Z, CLUSTERS, GRAPH)
    assert pairs.links.tolist() == [[4, 2, 0], [2, 2, 0], [1, 1, 0]]
    np.testing.assert_allclose(pairs.shared[0], [2.2 / 3, 0.66 / 3, 0.14 / 3], rtol=1e-5)
    # Means of 0 and 1 point along (2.6, 0.8) and (0, 1).
    assert pairs.similarity[0, 1] == pytest.approx(0.8 / np.hypot(2.6, 0.8))
    # 0 to 1: 2 of 6 links where 2/5 are expected; 1 to 0: 2 of 4 where 3/5 are; weighted by 3 and 2 images.
    mixing = (3 * (2 / 6) / (2 / 5) + 2 * (2 / 4) / (3 / 5)) / 5
    assert pairs.mixing[0, 1] == pairs.mixing[1, 0] == pytest.approx(mixing)
    found = cluster_quality(images, CLUSTERS, pairs)
    assert found.size.tolist() == [3, 2, 1]
    np.testing.assert_allclose(found.confidence, [2.2 / 3, 0.8, 0.6], rtol=1e-6)
    np.testing.assert_allclose(found.neighbour_agreement, [2 / 3, 0.5, 0], rtol=1e-6)
    assert found.closest[:2].tolist() == [1, 0]
    assert found.closest_mixing[0] == pytest.approx(mixing)


def test_run_by_eye():
    found = run_quality(image_quality(Q, Z, CLUSTERS, GRAPH), CLUSTERS)
    assert (found.images, found.clusters, found.largest_share) == (6, 3, 0.5)
    assert found.confidence == pytest.approx(4.4 / 6)
    assert found.neighbour_agreement == pytest.approx(0.5)
    assert found.silhouette == pytest.approx(3.1 / 6)
    assert found.subhead_agreement is None


def test_subheads_are_matched_before_they_are_asked():
    speaking = [0, 0, 0, 1, 1, 2]
    renamed = [2, 2, 2, 0, 0, 1]
    one_differs = [1, 1, 0, 0, 0, 2]
    found = subhead_agreement(np.array([renamed, speaking, one_differs]), speaking=1)
    np.testing.assert_allclose(found, [1, 1, 0.5, 1, 1, 1])
    assert subhead_agreement(np.array([speaking]), 0) is None
    # More clusters than the speaking one has: what is left over agrees with nothing.
    np.testing.assert_allclose(subhead_agreement(np.array([[0, 0, 0, 0], [0, 0, 0, 3]]), 0), [1, 1, 1, 0])


def test_matching_leaves_out_what_has_nothing_in_common():
    assert matched_to(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 1])).tolist() == [1, -1]
    assert matched_to(np.array([0, 2]), np.array([1, 0])).tolist() == [1, -1, 0]


def test_silhouette_against_scikit_learn_and_over_chunks():
    from sklearn.metrics import silhouette_samples

    features = clustered(900)
    clusters = np.random.default_rng(0).integers(5, size=900) * 2  # with gaps in the numbers
    clusters[7] = 11
    np.testing.assert_allclose(
        silhouette(features, clusters), silhouette_samples(features, clusters, metric="cosine"), atol=1e-5
    )
    many = np.tile(features, (40, 1))
    assert silhouette(many, np.tile(clusters, 40)).shape == (36_000,)
    assert not silhouette(features, np.zeros(900, dtype=np.int64)).any()


def test_an_outlier_is_odd_in_its_own_cluster():
    random = np.random.default_rng(0)
    dense = np.array([1, 0, 0]) + 0.06 * random.normal(size=(40, 3))
    loose = np.array([0, 1, 0]) + 0.3 * random.normal(size=(40, 3))
    odd = np.array([[1, 0, 0.3]])
    features = np.concatenate([dense, loose, odd])
    clusters = np.array([0] * 40 + [1] * 40 + [0])
    found = image_quality(np.eye(2)[clusters], features, clusters, neighbour_graph(features, 5))
    assert found.outlier.argmax() == 80
    assert found.outlier[80] > 5
    assert np.median(found.outlier[:40]) == pytest.approx(1, abs=0.05)
    assert np.median(found.outlier[40:80]) == pytest.approx(1, abs=0.05)


def test_copies_have_finite_outlier_scores():
    features = np.concatenate([np.ones((30, 3)), clustered(30, dimensions=3)])
    clusters = np.array([0] * 30 + [1] * 30)
    found = image_quality(np.eye(2)[clusters], features, clusters, neighbour_graph(features, 4))
    assert np.isfinite(found.outlier).all()
    assert found.outlier[:30].max() < 1


def test_clusters_that_a_person_made():
    clusters = np.array([0, 0, 4, 4, 4, 4])  # 4 is not among the model's three
    images = image_quality(Q, Z, clusters, GRAPH)
    found = cluster_quality(images, clusters, cluster_pairs(Q, Z, clusters, GRAPH))
    assert found.size.tolist() == [2, 0, 0, 0, 4]
    assert found.closest.tolist() == [4, -1, -1, -1, 0]
    assert np.isnan(found.confidence[1:4]).all()


def test_one_cluster_only():
    clusters = np.zeros(6, dtype=np.int64)
    images = image_quality(np.ones((6, 1)), Z, clusters, GRAPH)
    assert images.margin.tolist() == [1] * 6
    found = cluster_quality(images, clusters, cluster_pairs(np.ones((6, 1)), Z, clusters, GRAPH))
    assert found.closest.tolist() == [-1]


def test_arrays_of_different_runs():
    with pytest.raises(UsageError, match="q 6, z 5, clusters 6"):
        image_quality(Q, Z[:5], CLUSTERS, GRAPH)


def test_classes_by_eye():
    # Cluster 2 is class 0, cluster 0 is class 1; class 2 has nothing but one image in cluster 2.
    clusters = np.array([2, 2, 0, 0, 2, 1, 0])
    classes = np.array([0, 0, 1, 1, 2, -1, 0])
    q = np.eye(3)[clusters] * 0.9
    found = class_report(q, clusters, classes)
    assert found.images == 6
    assert found.matched.tolist() == [2, 0, 1]
    assert found.order.tolist() == [2, 0, 1]
    assert found.confusion.tolist() == [[2, 1, 0], [0, 2, 0], [1, 0, 0]]
    np.testing.assert_allclose(found.class_accuracy, [2 / 3, 1, 0])
    assert found.agreement.acc == pytest.approx(4 / 6)
    assert class_report(q, clusters, np.full(7, -1)) is None


def test_more_clusters_than_classes_and_the_reverse():
    clusters = np.array([0, 1, 1, 3, 3, 3])
    found = class_report(np.eye(5)[clusters], clusters, np.array([0, 0, 0, 1, 1, 1]))
    assert found.order.tolist() == [1, 3, 0, 2, 4]
    assert found.confusion.tolist() == [[2, 0, 1, 0, 0], [0, 3, 0, 0, 0]]
    found = class_report(np.eye(1)[[0, 0, 0]], np.array([0, 0, 0]), np.array([0, 1, 1]))
    assert found.matched.tolist() == [-1, 0]
    np.testing.assert_allclose(found.class_accuracy, [0, 1])
    assert found.acc5 == pytest.approx(2 / 3)


def test_acc5_against_a_plain_loop():
    random = np.random.default_rng(0)
    classes = random.integers(8, size=200)
    q = random.dirichlet(np.ones(8), size=200) + 0.03 * np.eye(8)[(classes + 3) % 8]
    clusters = q.argmax(axis=1)
    found = class_report(q, clusters, classes)
    hits = 0
    for row in range(200):
        hits += found.matched[classes[row]] in np.argsort(-q[row])[:5]
    assert found.acc5 == pytest.approx(hits / 200)
    assert found.agreement.acc < found.acc5 < 1


def test_runs_by_eye():
    # The second run has other images in another order, cluster 0 renamed 1 and 1 renamed 0; image 30 moved.
    first_ids, first = np.array([10, 20, 30, 40, 50]), np.array([0, 0, 0, 1, 1])
    second_ids, second = np.array([50, 40, 30, 20, 10, 60]), np.array([0, 0, 0, 1, 1, 2])
    found = compare_runs(first_ids, first, second_ids, second)
    assert (found.images, found.only_first, found.only_second) == (5, 0, 1)
    assert found.matched == (MatchedClusters(0, 1, 3, 2, 2, 2 / 3), MatchedClusters(1, 0, 2, 3, 2, 2 / 3))
    assert found.moved_ids.tolist() == [30]
    assert (found.moved_from.tolist(), found.moved_to.tolist()) == ([0], [0])
    assert found.same_share == pytest.approx(0.8)
    # Pairs together in both: 10-20, 40-50; in either run 4 of 10 pairs are together: (2 - 1.6) / (4 - 1.6).
    assert found.ari == pytest.approx((2 - 1.6) / (4 - 1.6))


def test_clusters_that_split_or_vanished():
    before, after = np.array([0, 0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 0, 2, 0, 0])
    found = compare_runs(np.arange(7), before, np.arange(7), after)
    assert found.matched == (
        MatchedClusters(0, 0, 5, 6, 4, 4 / 7),
        MatchedClusters(1, -1, 2, 0, 0, 0.0),
        MatchedClusters(-1, 2, 0, 1, 0, 0.0),
    )
    assert found.moved_ids.tolist() == [4, 5, 6]
    with pytest.raises(UsageError, match="no image in common"):
        compare_runs(np.array([1]), np.array([0]), np.array([2]), np.array([0]))
