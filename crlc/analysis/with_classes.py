"""How clusters compare with known classes, in detail. Classes are for reporting only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.agreement import Agreement, agreement, contingency
from crlc.analysis.unit_rows import CHUNK_ROWS, Rows

_FIVE = 5


@dataclass(frozen=True)
class ClassReport:
    """Over the images whose class is known."""

    images: int
    agreement: Agreement
    acc5: float
    """The share of images whose class is among those that their five most probable clusters are matched to."""

    confusion: Rows
    """(classes, clusters): rows in the order of the classes, columns as `order` says."""

    order: Rows
    """The clusters: first those matched to a class, in the order of the classes, then the others, largest first."""

    matched: Rows
    """The cluster matched to each class; -1 for a class that has none."""

    class_accuracy: NDArray[np.float64]
    """The share of each class's images in its cluster; NaN for a class without images."""


def class_report(q: NDArray[Any], clusters: Rows, classes: Rows) -> ClassReport | None:
    """Compare; none when no class is known.

    Args:
        q: probabilities, (N, C).
        clusters: the cluster of each image, (N,).
        classes: the class of each image, -1 where unknown, (N,).
    """
    measured = agreement(clusters, classes)
    if measured is None:
        return None
    known = np.flatnonzero(classes >= 0)
    table = contingency(classes[known], clusters[known])
    table = np.pad(table, ((0, 0), (0, max(0, q.shape[1] - table.shape[1]))))
    matched = _match(table)
    taken = matched[matched >= 0]
    rest = np.setdiff1d(np.arange(table.shape[1]), taken)
    order = np.concatenate([taken, rest[np.argsort(-table[:, rest].sum(axis=0), kind="stable")]])
    sizes = table.sum(axis=1)
    hits = np.where(matched >= 0, table[np.arange(len(table)), matched], 0)
    return ClassReport(
        images=len(known),
        agreement=measured,
        acc5=_acc5(q, known, classes, matched),
        confusion=table[:, order],
        order=order,
        matched=matched,
        class_accuracy=np.where(sizes > 0, hits / np.maximum(sizes, 1), np.nan),
    )


def five_best_accuracy(q: NDArray[Any], clusters: NDArray[Any], classes: Rows) -> float | None:
    """ACC5 alone; none when no class is known."""
    report = class_report(q, clusters.astype(np.int64), classes)
    return None if report is None else report.acc5


def _match(table: Rows) -> Rows:
    """The column that goes with each row, one to one (Hungarian); -1 for none."""
    from scipy.optimize import linear_sum_assignment

    matched = np.full(len(table), -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(table, maximize=True)
    matched[rows] = columns
    return matched


def _acc5(q: NDArray[Any], known: Rows, classes: Rows, matched: Rows) -> float:
    """Follow the rule: clusters are matched to classes, then the class must be among the five most probable."""
    hits = 0
    for start in range(0, len(known), CHUNK_ROWS):
        rows = known[start : start + CHUNK_ROWS]
        probabilities = np.asarray(q[rows])
        five = min(_FIVE, probabilities.shape[1])
        best = np.argpartition(-probabilities, five - 1, axis=1)[:, :five]
        wanted = matched[classes[rows]]
        hits += int(((best == wanted[:, None]) & (wanted[:, None] >= 0)).any(axis=1).sum())
    return hits / len(known)
