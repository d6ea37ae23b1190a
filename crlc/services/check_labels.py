"""Check of the labels of a dataset: what they predict, which of them contradict the others, what to label next."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crlc.analysis.label_check import HeldOutPredictions, ImageDescriptions, predict_held_out_labels
from crlc.analysis.label_classifier import LabelClassifier
from crlc.annotations.label_set import LabelSet
from crlc.arrays import FloatArray, ImageIds, IntArray
from crlc.errors import UsageError
from crlc.runs.run_title import read_run_title
from crlc.services.analyse_run import RunAnalysis

_MIN_LABELS = 2
_MIN_LABELS_TO_JUDGE = 3
"""A name with fewer labels is not reported as learnt badly."""

_WELL_LEARNT = 0.5
_MAX_DOUBTFUL_PROBABILITY = 0.1
_MAX_NEXT_IMAGES = 12


@dataclass(frozen=True)
class NameCheck:
    """Cross-validated predictions of one label name."""

    name: str
    labels: int
    correct: int
    """Labels that the other labels predict."""

    correct_before: int
    """Labels that the clusters of the run predict, named by the other labels."""

    confused_with: str | None
    """Name that is predicted most often instead; `None` if all labels are predicted correctly."""

    next_images: ImageIds
    """Unlabelled images to label next for a name that is learnt badly; empty for other names."""

    @property
    def is_learnt_badly(self) -> bool:
        """Whether fewer than half of the labels are predicted, although there are enough to judge."""
        return self.labels >= _MIN_LABELS_TO_JUDGE and self.correct < _WELL_LEARNT * self.labels


@dataclass(frozen=True)
class LabelReport:
    """Result of a check."""

    labels: int
    correct: int
    correct_before: int
    names: tuple[NameCheck, ...]
    """By name."""

    doubtful_ids: ImageIds
    """Labelled images whose other labels clearly predict another name, most doubtful first."""


def check_labels(analysis: RunAnalysis, labels: LabelSet) -> LabelReport:
    """Predict every label from the others by cross-validation.

    Args:
        analysis: the run that the labels improve.
        labels: labels of its dataset; images that the run does not have are left out.

    Raises:
        UsageError: there are fewer than two labels.
    """
    labels = labels.select_ids(analysis.ids)
    if len(labels) < _MIN_LABELS:
        raise UsageError(
            f"{len(labels)} labelled images of the run {read_run_title(analysis.run)} cannot be checked: "
            f"at least {_MIN_LABELS} are needed."
        )
    rows = labels.find_positions(analysis.ids)
    descriptions = _describe_images(analysis)
    described = descriptions.describe_with_neighbours(rows)
    found = predict_held_out_labels(described, np.asarray(analysis.q[rows]), analysis.clusters[rows], labels.codes)
    names = tuple(_check_name(labels, code, found) for code in range(len(labels.names)))
    if any(check.is_learnt_badly for check in names):
        probabilities = descriptions.predict_all(LabelClassifier.fit(described, labels.codes))
        probabilities[rows] = 0.0  # not to be labelled again
        names = tuple(
            replace(check, next_images=analysis.ids[_find_next_rows(probabilities, code)])
            if check.is_learnt_badly
            else check
            for code, check in enumerate(names)
        )
    return LabelReport(
        len(labels),
        int((found.by_labels == labels.codes).sum()),
        int((found.by_clusters == labels.codes).sum()),
        names,
        _find_doubtful_labels(labels, found),
    )


def _describe_images(analysis: RunAnalysis) -> ImageDescriptions:
    arrays = analysis.result.arrays
    features = analysis.load_array("h" if "h" in arrays else "z")
    by_subhead = analysis.load_array("by_subhead") if "by_subhead" in arrays else analysis.clusters[:, None]
    return ImageDescriptions(features, by_subhead, analysis.load_graph().positions)


def _check_name(labels: LabelSet, code: int, found: HeldOutPredictions) -> NameCheck:
    is_own = labels.codes == code
    predicted = found.by_labels[is_own]
    wrong = predicted[(predicted != code) & (predicted >= 0)]
    return NameCheck(
        labels.names[code],
        int(is_own.sum()),
        int((predicted == code).sum()),
        int((found.by_clusters[is_own] == code).sum()),
        labels.names[int(np.bincount(wrong).argmax())] if len(wrong) else None,
        np.empty(0, np.int64),
    )


def _find_next_rows(probabilities: FloatArray, code: int) -> IntArray:
    """Return the images whose probabilities of this label and of the best other label are both high, best first."""
    others = np.delete(probabilities, code, axis=1).max(axis=1)
    undecided = np.minimum(probabilities[:, code], others)
    best = np.argsort(-undecided, kind="stable")[:_MAX_NEXT_IMAGES]
    rows: IntArray = best[undecided[best] > 0]
    return rows


def _find_doubtful_labels(labels: LabelSet, found: HeldOutPredictions) -> ImageIds:
    """Return the images whose label is improbable given the others; names with few labels are left out."""
    counts = np.bincount(labels.codes)[labels.codes]
    is_doubtful = (found.by_labels != labels.codes) & (found.own_probability < _MAX_DOUBTFUL_PROBABILITY)
    order = np.argsort(found.own_probability, kind="stable")
    ids: ImageIds = labels.ids[order[(is_doubtful & (counts >= _MIN_LABELS_TO_JUDGE))[order]]]
    return ids
