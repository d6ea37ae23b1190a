"""Labels that the next run would learn from, with warnings about them, and the job that trains it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from app.view_models.cluster_view import RunView
from crlc.analysis.label_matching import match_names_to_clusters
from crlc.annotations.label_set import LabelSet
from crlc.annotations.store import AnnotationStore
from crlc.arrays import ImageIds
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import read_records
from crlc.formatting import format_list
from crlc.jobs.job import Job, JobState
from crlc.paths import to_printable
from crlc.services.check_labels import LabelReport
from crlc.services.label_sources import WORKSPACE, WORKSPACE_AND_MOVES, load_workspace_labels

SUFFICIENT_LABELS = 4
"""Number of labels per name that already improves a run clearly; more labels help further."""

_MAX_LISTED_NAMES = 6
_MAX_LISTED_CONTRADICTIONS = 3


@dataclass(frozen=True)
class TrainingLabels:
    """Labels that a run would learn from, with warnings about them."""

    labels: LabelSet
    moved: int
    """Number of images without a label that the user moved into a named cluster; they are used only on request."""

    def __len__(self) -> int:
        """Return the number of labelled images."""
        return len(self.labels)


def collect_training_labels(view: RunView, annotations: AnnotationStore, *, with_moves: bool = False) -> TrainingLabels:
    """Return the labels of the images of a run that CRLC-semi would train on.

    Args:
        view: the run.
        annotations: annotations of its dataset.
        with_moves: also use the names of clusters that the user moved images into.
    """
    labels = load_workspace_labels(annotations)
    moved = view.analysis.clustering.apply_edits(annotations.refresh()).get_labels_of_moved_images()
    unlabelled = int((~np.isin(moved.ids, labels.ids)).sum())
    labels = (labels.merge(moved) if with_moves else labels).select_ids(view.ids)
    warnings = []
    if len(labels):
        names = tuple(labels.labels)
        warnings = [*_find_contradictions(view.dataset, labels.ids, names), *_check_names(view, labels.ids, names)]
        few = [name for name, count in labels.count_by_name().items() if count < SUFFICIENT_LABELS]
        if few:
            warnings.append(f"Fewer than {SUFFICIENT_LABELS} labels: {_format_names(few)}.")
    return TrainingLabels(replace(labels, warnings=(*warnings, *labels.warnings)), unlabelled)


def build_semi_arguments(dataset: str, parent: str, *, with_moves: bool) -> list[str]:
    """Return the arguments of `crlc train` that train a run from its parent and the labels of the workspace."""
    labels = WORKSPACE_AND_MOVES if with_moves else WORKSPACE
    return [dataset, "--method", "semi", "--parent", parent, "--labels", labels]


def find_improvement_job(jobs: Iterable[Job], parent: str) -> Job | None:
    """Return the newest job that trains a child of a run and is not final, or failed before it had a run."""
    found = [job for job in jobs if ("--parent", parent) in pairwise(job.arguments)]
    relevant = (
        job for job in reversed(found) if not job.is_final or (job.run is None and job.state is JobState.FAILED)
    )
    return next(relevant, None)


def _check_names(view: RunView, ids: ImageIds, names: tuple[str, ...]) -> list[str]:
    """Return warnings about names that no cluster fits, and about more names than clusters."""
    arrays = view.analysis.result.arrays
    rows = np.searchsorted(arrays["ids"], ids)
    matched = match_names_to_clusters(arrays["q"][rows], np.asarray(arrays["cluster"][rows], np.int64), names)
    warnings = []
    if matched.unsupported:
        warnings.append(
            f"No labelled image is in the cluster that would get the name: {_format_names(matched.unsupported)}. "
            "Add labels with this name, or use fewer names."
        )
    if len(matched.names) > arrays["q"].shape[1]:
        warnings.append(f"There are more names than clusters: the new run will have {len(matched.names):,} clusters.")
    return warnings


def _find_contradictions(dataset: ImageDataset, ids: ImageIds, names: tuple[str, ...]) -> list[str]:
    """Return a warning about identical images with different labels."""
    records = read_records(dataset, ids)
    by_hash: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for image, name in zip(ids.tolist(), names, strict=True):
        if image in records and records[image].hash:
            by_hash[records[image].hash or ""].append((name, to_printable(records[image].path)))
    contradictions = [
        " and ".join(f"{path} is {name!r}" for name, path in labelled[:2])
        for labelled in by_hash.values()
        if len({name for name, _ in labelled}) > 1
    ]
    if not contradictions:
        return []
    return [f"Identical images have different labels: {format_list(contradictions, _MAX_LISTED_CONTRADICTIONS, '; ')}."]


def _format_names(names: Iterable[str]) -> str:
    return format_list([repr(to_printable(name)) for name in names], _MAX_LISTED_NAMES)


def describe_risk(report: LabelReport | None) -> str | None:
    """Return why a run trained with labels may be worse than the run before it; `None` if nothing indicates it."""
    if report is None or report.correct >= report.correct_before:
        return None
    return (
        f"The labels predict {report.correct:,} of {report.labels:,} hidden labels; the clusters of the run before "
        f"predict {report.correct_before:,}. Check the reassigned images before you switch, or label more images."
    )
