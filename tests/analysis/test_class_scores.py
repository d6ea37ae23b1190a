"""Class probabilities, and the words with the most lift in a cluster, compared with values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from crlc.analysis import class_scores
from crlc.analysis.class_scores import ClassIndex, find_cluster_words, rank_classes, sum_classes, sum_classes_by_cluster
from crlc.data.feature_shards import RANKED_CLASSES
from tests.fixtures.class_scores import make_class_scores

DOG, TERRIER, CAT, ANIMAL = range(4)
WORDS = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1], [1, 1, 1]], np.bool_)
"""Words of three classes: terrier, poodle and cat."""


def test_rank_classes_returns_the_softmax_of_the_largest_logits():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(50, 8)).astype(np.float16)
    weight, bias = generator.normal(size=(1000, 8)).astype(np.float32), generator.normal(size=1000).astype(np.float32)
    found = rank_classes(features, weight, bias)
    for row, vector in zip(found, features.astype(np.float64), strict=True):
        logits = weight @ vector + bias
        expected = np.exp(logits) / np.exp(logits).sum()
        order = np.argsort(-expected)[:RANKED_CLASSES]
        np.testing.assert_array_equal(row["number"], order)
        np.testing.assert_allclose(row["probability"], expected[order], rtol=2e-3)


def test_rank_classes_with_huge_logits_is_finite():
    weight = np.zeros((1000, 1), np.float32)
    weight[7] = 1e4
    best = rank_classes(np.array([[100.0]], np.float16), weight, np.zeros(1000, np.float32))[0, 0]
    assert (best["number"], best["probability"]) == (7, 1)


def test_rank_classes_uses_one_thread(monkeypatch: pytest.MonkeyPatch):
    """Threads of BLAS that wait in busy loops doubled the computing time of a few hundred images."""
    threads: list[int] = []
    select = class_scores._select_classes

    def record(logits: np.ndarray) -> np.ndarray:
        threads.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return select(logits)

    monkeypatch.setattr(class_scores, "_select_classes", record)
    with threadpool_limits(2, "blas"):
        rank_classes(np.ones((3, 4), np.float16), np.ones((1000, 4), np.float32), np.zeros(1000, np.float32))
        after = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    assert set(threads) == {1}
    assert set(after) == {2}


def test_class_index_sums_the_probabilities_of_the_given_classes_only():
    index = ClassIndex(make_class_scores(), 1000)
    np.testing.assert_allclose(index.sum_probabilities(np.arange(151, 269)), [0.75, 0.25, 0, 0.0625])  # dogs
    np.testing.assert_allclose(index.sum_probabilities(np.array([0])), [0, 0, 0, 0])  # also fills empty places
    np.testing.assert_allclose(index.sum_probabilities(np.empty(0, np.int64)), [0, 0, 0, 0])
    np.testing.assert_allclose(index.sum_probabilities(np.arange(1000)), [0.875, 0.75, 0.75, 0.5625])


def test_sum_classes_by_cluster_leaves_images_without_cluster_out():
    sums = sum_classes_by_cluster(make_class_scores(), np.array([1, 1, -1, 0]), 1000)
    assert sums.shape == (2, 1000)
    assert sums[1, 207] == 0.5  # golden retriever
    assert sums[1].sum() == pytest.approx(0.875 + 0.75)
    assert sums[0].sum() == pytest.approx(0.5625)
    np.testing.assert_allclose(sum_classes(make_class_scores()[[0, 1, 3]], 1000), sums.sum(axis=0))


def test_cluster_words_prefer_the_general_word_that_describes_more_of_the_cluster():
    sums = np.array([[4.0, 4.0, 1.0], [0.0, 1.0, 9.0]])
    dogs, cats = find_cluster_words(sums, np.array([10, 10]), WORDS, 3)
    assert [word.word for word in dogs] == [DOG, TERRIER]  # all are animals: no lift
    assert (dogs[0].coverage, dogs[0].lift) == pytest.approx((0.8, 0.8 / 0.45))
    assert [word.word for word in cats] == [CAT]


def test_cluster_words_prefer_the_specific_word_that_describes_nearly_as_much():
    words = np.zeros((2, 1000), np.bool_)
    words[0, :100], words[1, 0] = True, True
    sums = np.zeros((2, 1000))
    sums[0, :2], sums[1, 500] = (9.2, 0.8), 10
    assert [word.word for word in find_cluster_words(sums, np.array([10, 10]), words, 3)[0]] == [1]
    sums[0, :2] = (6, 4)
    assert [word.word for word in find_cluster_words(sums, np.array([10, 10]), words, 3)[0]] == [0]


def test_cluster_words_of_empty_clusters_and_of_one_cluster_are_empty():
    assert find_cluster_words(np.array([[5.0, 0, 0], [0, 0, 0]]), np.array([5, 0]), WORDS, 3) == [[], []]


def test_cluster_words_with_a_low_coverage_are_left_out():
    """Otherwise a cluster of forests, which no class describes, was offered park bench with a coverage of 0.1."""
    words = np.eye(3, dtype=np.bool_)
    sums = np.array([[1.1, 1.3, 0.0], [0.0, 0.0, 9.0]])
    found = find_cluster_words(sums, np.array([10, 10]), words, 3)
    assert [[word.word for word in one] for one in found] == [[1], [2]]
