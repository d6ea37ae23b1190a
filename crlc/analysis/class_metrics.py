"""Metrics of clusters against ground-truth classes: ACC, NMI, ARI, ACC5 and the confusion matrix.

Classes are used for reports only, never for training or model selection. The same metrics compare two clusterings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.normalization import CHUNK_ROWS
from crlc.arrays import DoubleArray, IntArray, LabelArray

_TOP_CLUSTERS = 5


class Agreement(NamedTuple):
    """The three clustering metrics of the paper (Table 1)."""

    acc: float
    nmi: float
    ari: float


@dataclass(frozen=True)
class ClassReport:
    """Comparison of clusters with classes, over the images whose class is known."""

    images: int
    agreement: Agreement
    acc5: float
    """ACC5: fraction of images whose class is matched to one of their five most probable clusters."""

    confusion: IntArray
    """Confusion matrix (classes, clusters): columns in the order of `cluster_order`."""

    cluster_order: IntArray
    """Clusters matched to a class, in the order of the classes, then the others, largest first."""

    matched_clusters: IntArray
    """The cluster matched to each class; -1 for a class without one."""

    class_accuracy: DoubleArray
    """Fraction of each class's images that are in its matched cluster; NaN for a class without images."""


def compute_classification_accuracy(
    clusters: LabelArray, classes: LabelArray, labelled_clusters: LabelArray, labelled_classes: LabelArray
) -> float | None:
    """Return the fraction of images in a cluster that labels assign to their class.

    The class of a cluster is the most frequent one of the images labelled with its name; images in a cluster without
    labels count as wrong.

    Args:
        clusters: the cluster of each image, (N,).
        classes: the class of each image, -1 where unknown, (N,).
        labelled_clusters: the cluster of the label of each labelled image, (L,).
        labelled_classes: the class of each labelled image, -1 where unknown, (L,).

    Returns:
        The accuracy over the images whose class is known, or None when no class is known.
    """
    known, labelled = classes >= 0, labelled_classes >= 0
    if not known.any() or not labelled.any():
        return None
    counts = compute_contingency(labelled_clusters[labelled], labelled_classes[labelled])
    class_of = np.full(max(int(clusters.max()) + 1, len(counts)), -1)
    class_of[: len(counts)] = np.where(counts.sum(axis=1) > 0, counts.argmax(axis=1), -1)
    return float((class_of[clusters[known]] == classes[known]).mean())


def compute_agreement(clusters: LabelArray, classes: LabelArray) -> Agreement | None:
    """Compute ACC, NMI and ARI over the images whose class is known.

    Args:
        clusters: the cluster of each image, (N,).
        classes: the class of each image, -1 where unknown, (N,).

    Returns:
        The metrics, or None when no class is known.
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    known = classes >= 0
    if not known.any():
        return None
    clusters, classes = clusters[known], classes[known]
    return Agreement(
        acc=compute_accuracy(clusters, classes),
        nmi=float(normalized_mutual_info_score(classes, clusters)),
        ari=float(adjusted_rand_score(classes, clusters)),
    )


def compute_accuracy(clusters: LabelArray, classes: LabelArray) -> float:
    """Compute ACC: the fraction of images whose cluster is matched to their class, by the best one-to-one matching.

    With different numbers of clusters and classes the contingency table is rectangular; unmatched clusters count as
    wrong.

    Args:
        clusters: the cluster of each image, (N,).
        classes: the class of each image, (N,); all must be known.
    """
    from scipy.optimize import linear_sum_assignment

    table = compute_contingency(clusters, classes)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / len(clusters))


def compute_contingency(first: LabelArray, second: LabelArray) -> IntArray:
    """Return the contingency table of two clusterings of the same images, (max of `first` + 1, max of `second` + 1)."""
    width = int(second.max()) + 1
    counts = np.bincount(first.astype(np.int64) * width + second, minlength=(int(first.max()) + 1) * width)
    return counts.reshape(-1, width)


def match_clusters(clusters: IntArray, reference: IntArray) -> IntArray:
    """Match clusters one to one with those of another clustering of the same images (Hungarian algorithm).

    Args:
        clusters: the cluster of each image, (N,).
        reference: the cluster of each image in the other clustering, (N,).

    Returns:
        For each cluster, the matched cluster of `reference`; -1 for a cluster without a match.
    """
    table = compute_contingency(clusters, reference)
    match = _match_columns(table)
    shares_images = table[np.arange(len(table)), match] > 0
    return np.where((match >= 0) & shares_images, match, -1)


def compute_mean_nmi(assignments: LabelArray) -> float:
    """Compute the mean NMI over all pairs of clusterings of the same images, (S, N); 1 for a single clustering."""
    from sklearn.metrics import normalized_mutual_info_score

    count = len(assignments)
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    if not pairs:
        return 1.0
    return float(np.mean([normalized_mutual_info_score(assignments[a], assignments[b]) for a, b in pairs]))


def build_class_report(q: NDArray[Any], clusters: IntArray, classes: IntArray) -> ClassReport | None:
    """Compare clusters with classes in detail.

    Args:
        q: probabilities, (N, C).
        clusters: the cluster of each image, (N,).
        classes: the class of each image, -1 where unknown, (N,).

    Returns:
        The report, or None when no class is known.
    """
    agreement = compute_agreement(clusters, classes)
    if agreement is None:
        return None
    known = np.flatnonzero(classes >= 0)
    table = compute_contingency(classes[known], clusters[known])
    table = np.pad(table, ((0, 0), (0, max(0, q.shape[1] - table.shape[1]))))
    matched = _match_columns(table)
    used = matched[matched >= 0]
    rest = np.setdiff1d(np.arange(table.shape[1]), used)
    order = np.concatenate([used, rest[np.argsort(-table[:, rest].sum(axis=0), kind="stable")]])
    sizes = table.sum(axis=1)
    hits = np.where(matched >= 0, table[np.arange(len(table)), matched], 0)
    return ClassReport(
        images=len(known),
        agreement=agreement,
        acc5=_compute_acc5(q, known, classes, matched),
        confusion=table[:, order],
        cluster_order=order,
        matched_clusters=matched,
        class_accuracy=np.where(sizes > 0, hits / np.maximum(sizes, 1), np.nan),
    )


def compute_top5_accuracy(q: NDArray[Any], clusters: NDArray[Any], classes: IntArray) -> float | None:
    """Compute ACC5 alone, or None when no class is known; the arguments are those of `build_class_report`."""
    report = build_class_report(q, clusters.astype(np.int64), classes)
    return None if report is None else report.acc5


def _match_columns(table: IntArray) -> IntArray:
    """Return the column matched to each row, one to one (Hungarian algorithm); -1 for none."""
    from scipy.optimize import linear_sum_assignment

    matched = np.full(len(table), -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(table, maximize=True)
    matched[rows] = columns
    return matched


def _compute_acc5(q: NDArray[Any], known: IntArray, classes: IntArray, matched: IntArray) -> float:
    """Return the fraction of images with the cluster matched to their class among their five most probable clusters."""
    hits = 0
    for start in range(0, len(known), CHUNK_ROWS):
        rows = known[start : start + CHUNK_ROWS]
        probabilities = np.asarray(q[rows])
        top = min(_TOP_CLUSTERS, probabilities.shape[1])
        best = np.argpartition(-probabilities, top - 1, axis=1)[:, :top]
        target = matched[classes[rows]]
        hits += int(((best == target[:, None]) & (target[:, None] >= 0)).any(axis=1).sum())
    return hits / len(known)
