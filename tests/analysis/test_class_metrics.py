"""ACC, NMI, ARI, ACC5, confusion and matching of clusters, by hand and against naive loops."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.class_metrics import (
    build_class_report,
    compute_accuracy,
    compute_agreement,
    compute_classification_accuracy,
    compute_contingency,
    compute_mean_nmi,
    match_clusters,
)


def make_array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("clusters", "classes", "expected"),
    [
        (make_array(2, 2, 0, 0, 1, 1), make_array(0, 0, 1, 1, 2, 2), 1.0),  # only the numbers differ
        (make_array(0, 0, 0, 0, 0, 0), make_array(0, 0, 1, 1, 2, 2), 1 / 3),
        (make_array(0, 0, 1, 1), make_array(0, 1, 0, 1), 0.5),
        (make_array(0, 1, 2, 3), make_array(0, 0, 1, 1), 0.5),  # two of four clusters stay unmatched and wrong
        (make_array(0, 0, 1, 1), make_array(0, 1, 2, 3), 0.5),  # two of four classes stay unmatched
        (make_array(0, 0, 0, 1, 1), make_array(1, 1, 0, 0, 0), 0.8),
    ],
)
def test_accuracy_uses_the_best_one_to_one_matching(clusters: np.ndarray, classes: np.ndarray, expected: float):
    assert compute_accuracy(clusters, classes) == pytest.approx(expected)


def test_agreement_ignores_images_without_a_class():
    found = compute_agreement(make_array(0, 0, 1, 1, 1), make_array(0, 0, 1, -1, 1))
    assert found == pytest.approx((1.0, 1.0, 1.0))
    assert compute_agreement(make_array(0, 1), make_array(-1, -1)) is None


def test_contingency_counts_pairs():
    assert compute_contingency(make_array(0, 0, 2), make_array(1, 1, 0)).tolist() == [[0, 2], [0, 0], [1, 0]]


def test_mean_nmi_is_one_for_equal_and_zero_for_independent_clusterings():
    same = np.stack([make_array(0, 0, 1, 1), make_array(1, 1, 0, 0)])
    crossed = np.stack([make_array(0, 0, 1, 1), make_array(0, 1, 0, 1)])
    assert compute_mean_nmi(same) == pytest.approx(1.0)
    assert compute_mean_nmi(crossed) == pytest.approx(0.0, abs=1e-9)
    assert compute_mean_nmi(same[:1]) == 1.0


def test_match_clusters_ignores_pairs_without_common_images():
    assert match_clusters(np.array([0, 0, 1, 1]), np.array([1, 1, 1, 1])).tolist() == [1, -1]
    assert match_clusters(np.array([0, 2]), np.array([1, 0])).tolist() == [1, -1, 0]


def test_class_report_matches_values_by_hand():
    # Cluster 2 is class 0, cluster 0 is class 1; the only image of class 2 is in cluster 2.
    clusters = np.array([2, 2, 0, 0, 2, 1, 0])
    classes = np.array([0, 0, 1, 1, 2, -1, 0])
    q = np.eye(3)[clusters] * 0.9
    found = build_class_report(q, clusters, classes)
    assert found.images == 6
    assert found.matched_clusters.tolist() == [2, 0, 1]
    assert found.cluster_order.tolist() == [2, 0, 1]
    assert found.confusion.tolist() == [[2, 1, 0], [0, 2, 0], [1, 0, 0]]
    np.testing.assert_allclose(found.class_accuracy, [2 / 3, 1, 0])
    assert found.agreement.acc == pytest.approx(4 / 6)
    assert build_class_report(q, clusters, np.full(7, -1)) is None


def test_class_report_with_different_numbers_of_clusters_and_classes():
    clusters = np.array([0, 1, 1, 3, 3, 3])
    found = build_class_report(np.eye(5)[clusters], clusters, np.array([0, 0, 0, 1, 1, 1]))
    assert found.cluster_order.tolist() == [1, 3, 0, 2, 4]
    assert found.confusion.tolist() == [[2, 0, 1, 0, 0], [0, 3, 0, 0, 0]]
    found = build_class_report(np.eye(1)[[0, 0, 0]], np.array([0, 0, 0]), np.array([0, 1, 1]))
    assert found.matched_clusters.tolist() == [-1, 0]
    np.testing.assert_allclose(found.class_accuracy, [0, 1])
    assert found.acc5 == pytest.approx(2 / 3)


def test_acc5_matches_a_naive_loop():
    random = np.random.default_rng(0)
    classes = random.integers(8, size=200)
    q = random.dirichlet(np.ones(8), size=200) + 0.03 * np.eye(8)[(classes + 3) % 8]
    clusters = q.argmax(axis=1)
    found = build_class_report(q, clusters, classes)
    hits = 0
    for row in range(200):
        hits += found.matched_clusters[classes[row]] in np.argsort(-q[row])[:5]
    assert found.acc5 == pytest.approx(hits / 200)
    assert found.agreement.acc < found.acc5 < 1


def test_classification_accuracy_uses_the_classes_of_labelled_images_only():
    clusters = np.array([0, 0, 1, 1, 2, 0])
    classes = np.array([3, 1, 1, 1, 3, -1])
    # Cluster 0 has labels of class 3 (twice) and 1, cluster 1 of class 1, cluster 2 none.
    found = compute_classification_accuracy(clusters, classes, np.array([0, 0, 0, 1, 1]), np.array([3, 3, 1, 1, -1]))
    assert found == pytest.approx(3 / 5)
    assert compute_classification_accuracy(clusters, np.full(6, -1), np.array([0]), np.array([1])) is None
