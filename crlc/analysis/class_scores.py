"""Class probabilities of images, and words with the most lift in each cluster; pure functions over arrays."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.arrays import BoolArray, DoubleArray, Features, FloatArray, IntArray, LabelArray
from crlc.data.feature_shards import CLASS_SCORES, RANKED_CLASSES, ClassScores

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_ROWS_PER_BATCH = 4096
_MIN_COVERAGE = 0.12
"""Words with a lower mean probability in a cluster say little about it: forests got park bench, fence and mammal, with
0.07 to 0.11."""

_MIN_LIFT = 1.2
_SPECIFICITY_WEIGHT = 0.1
"""Weight of log(1000 / number of classes), which prefers a specific word with nearly the same coverage: dalmatian over
dog if nine of ten images are dalmatians, but not if seven are."""

_MAX_OVERLAP = 0.5
"""A word is left out if it has more than this fraction of its probability in common with a better word."""


class ClusterWord(NamedTuple):
    """A word that describes a cluster."""

    word: int
    """Index of the word."""

    coverage: float
    """Mean probability of the word in the images of the cluster, from 0 to 1."""

    lift: float
    """Coverage divided by the mean probability in all images."""


def rank_classes(features: Features, weight: FloatArray, bias: FloatArray) -> ClassScores:
    """Return the most probable classes of images, (N, K), the most probable first.

    Args:
        features: features of the backbone, (N, d).
        weight: of its linear classifier, (1000, d).
        bias: (1000,).
    """
    found = np.empty((len(features), RANKED_CLASSES), CLASS_SCORES)
    # With more threads, BLAS waits for them in busy loops: 600 images took 66 ms of computing time instead of 28 ms.
    with _find_blas_threads().limit(limits=1, user_api="blas"):
        for start in range(0, len(features), _ROWS_PER_BATCH):
            logits = np.asarray(features[start : start + _ROWS_PER_BATCH], np.float32) @ weight.T
            logits += bias
            found[start : start + len(logits)] = _select_classes(logits)
    return found


@cache
def _find_blas_threads() -> ThreadpoolController:
    """Return the controller of BLAS's threads; finding the libraries takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _select_classes(logits: FloatArray) -> ClassScores:
    """Return the most probable classes by logits, which are overwritten: the softmax in place, without a copy."""
    best = np.argpartition(logits, -RANKED_CLASSES, axis=1)[:, -RANKED_CLASSES:]
    values = np.take_along_axis(logits, best, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    best, values = np.take_along_axis(best, order, axis=1), np.take_along_axis(values, order, axis=1)
    highest = values[:, :1]
    logits -= highest
    found = np.empty(best.shape, CLASS_SCORES)
    found["number"] = best
    found["probability"] = np.exp(values - highest) / np.exp(logits, out=logits).sum(axis=1, keepdims=True)
    return found


class ClassIndex:
    """Images by class, which sums the probabilities of a few classes without reading those of all others."""

    def __init__(self, scores: ClassScores, classes: int) -> None:
        """Sort the probabilities by class.

        Args:
            scores: the most probable classes of each image, (N, K). The others count as 0.
            classes: number of classes.
        """
        numbers = scores["number"].ravel()
        order = np.argsort(numbers, kind="stable")
        self._images = (order // scores.shape[1]).astype(np.int32)
        self._probabilities = scores["probability"].ravel()[order].astype(np.float32)
        self._ends = np.searchsorted(numbers[order], np.arange(classes), side="right")
        self._count = len(scores)

    def sum_probabilities(self, classes: IntArray) -> DoubleArray:
        """Return the probability that an image shows one of some classes, (N,)."""
        parts = [slice(self._ends[number - 1] if number else 0, self._ends[number]) for number in classes.tolist()]
        images = np.concatenate([self._images[part] for part in parts] or [self._images[:0]])
        weights = np.concatenate([self._probabilities[part] for part in parts] or [self._probabilities[:0]])
        return np.bincount(images, weights, minlength=self._count).astype(np.float64, copy=False)


def sum_classes(scores: ClassScores, classes: int) -> DoubleArray:
    """Return the summed probabilities of each class, (classes,)."""
    sums = np.bincount(scores["number"].ravel(), scores["probability"].ravel(), minlength=classes)
    return sums.astype(np.float64)


def sum_classes_by_cluster(scores: ClassScores, clusters: LabelArray, classes: int) -> DoubleArray:
    """Return the summed probabilities of each class in each cluster, (C, classes); rows of cluster -1 are left out."""
    is_in_cluster = clusters >= 0
    count = int(clusters.max(initial=-1)) + 1
    found = scores[is_in_cluster]
    cells = clusters[is_in_cluster, None].astype(np.int64) * classes + found["number"]
    sums = np.bincount(cells.ravel(), found["probability"].ravel(), minlength=count * classes)
    return sums.astype(np.float64).reshape(count, classes)


def find_cluster_words(
    sums: DoubleArray, sizes: NDArray[np.int64], membership: BoolArray, count: int
) -> list[list[ClusterWord]]:
    """Return the words that describe each cluster best, the best first.

    A word is scored by coverage x log(lift), its part of the divergence between the cluster and all images, plus a
    little for being specific. So a general word wins over a specific one if it describes more of the cluster (dog over
    terrier), unless it describes the other clusters, too (animal). Words for mostly the same images are listed once.

    Args:
        sums: summed probabilities of each class in each cluster, (C, 1000).
        sizes: number of images in each cluster, (C,).
        membership: whether each word has each class, (W, 1000).
        count: maximum number of words per cluster.
    """
    words = membership.T.astype(np.float64)
    specificity = _SPECIFICITY_WEIGHT * np.log(membership.shape[1] / np.maximum(membership.sum(axis=1), 1))
    overall = sums.sum(axis=0) / max(1, sizes.sum())
    expected = overall @ words
    found = []
    for total, size in zip(sums, sizes.tolist(), strict=True):
        mean = total / max(1, size)
        coverage = mean @ words
        lift = coverage / np.maximum(expected, 1e-12)
        is_usable = (coverage >= _MIN_COVERAGE) & (lift >= _MIN_LIFT)
        score = np.where(is_usable, coverage * (np.log(np.maximum(lift, 1)) + specificity), 0)
        best = _pick(score, mean, membership, count)
        found.append([ClusterWord(word, float(coverage[word]), float(lift[word])) for word in best])
    return found


def _pick(score: DoubleArray, mean: DoubleArray, membership: BoolArray, count: int) -> list[int]:
    """Return the words with the highest scores, without words that repeat a better one."""
    picked: list[int] = []
    for word in np.argsort(-score, kind="stable").tolist():
        if len(picked) == count or score[word] <= 0:
            break
        own = membership[word]
        if all(_compute_overlap(mean, own, membership[other]) <= _MAX_OVERLAP for other in picked):
            picked.append(word)
    return picked


def _compute_overlap(mean: DoubleArray, one: BoolArray, other: BoolArray) -> float:
    """Return the fraction of the probability of either word that both have in common."""
    return float(mean[one & other].sum() / max(float(mean[one | other].sum()), 1e-12))
