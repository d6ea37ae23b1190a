"""Sources of the labels of a CRLC-semi run: a CSV file, the workspace, or (for benchmarks) ground-truth classes."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crlc.annotations.label_csv import read_valid_label_file
from crlc.annotations.label_set import LabelSet
from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import Clustering
from crlc.data.dataset import ImageDataset
from crlc.errors import UsageError
from crlc.formatting import format_count
from crlc.runs.folder import RunFolder

WORKSPACE, WORKSPACE_AND_MOVES = "workspace", "workspace+moved"
"""Sources by name, as `crlc train --labels` accepts them; any other source is a CSV file or `classes:N`."""

_CLASSES = re.compile(r"classes:(\d+)")


def load_labels(
    source: str, dataset: ImageDataset, ids: NDArray[np.int64], parent: RunFolder | None, *, seed: int = 0
) -> LabelSet:
    """Load the labels that a source has for the images of a run.

    Args:
        source: a CSV file; `workspace`; `workspace+moved`, which adds images that the user moved into a named cluster
            of the parent; or `classes:N` for N random images of each ground-truth class.
        dataset: dataset of the run.
        ids: images of the run, ascending.
        parent: run whose clusters the user edited, if any.
        seed: seed of the random draw for `classes:N`.

    Returns:
        Labels of images of the run, at least one. Its `warnings` describe labels that were left out.

    Raises:
        UsageError: the source has no label for any of the images, or is unknown.
    """
    images_per_class = _CLASSES.fullmatch(source)
    if images_per_class:
        labels = _draw_labels_from_classes(dataset, ids, int(images_per_class[1]), seed)
    elif source in (WORKSPACE, WORKSPACE_AND_MOVES):
        with AnnotationStore(dataset) as annotations:
            labels = load_workspace_labels(annotations)
            if source == WORKSPACE_AND_MOVES and parent is not None:
                edited = Clustering.from_run(parent, dataset).apply_edits(annotations.refresh())
                labels = labels.merge(edited.get_labels_of_moved_images())
    else:
        content = read_valid_label_file(Path(source), dataset)
        labels = content.labels
        if content.unknown:
            missing = format_count(len(content.unknown), "path")
            labels = replace(labels, warnings=(f"{missing} of {source} not found in {dataset.name}: left out.",))
    labels = labels.select_ids(ids)
    if not len(labels):
        raise UsageError(
            f"labels={source!r} has no label for any image of this run.",
            advice="Label some images first.",
            parameters=("labels",),
        )
    return labels


def load_workspace_labels(annotations: AnnotationStore) -> LabelSet:
    """Load the manual labels of a dataset. Labels that are out of date are left out, with a warning."""
    labels, stale = annotations.load_usable_labels(), len(annotations.find_stale_labels())
    if not stale:
        return labels
    warning = f"{format_count(stale, 'label')} left out: the image has changed since it was labelled."
    return replace(labels, warnings=(warning,))


def _draw_labels_from_classes(
    dataset: ImageDataset, ids: NDArray[np.int64], images_per_class: int, seed: int
) -> LabelSet:
    """Label some images of each class with their class: those with the smallest hashes of seed and id."""
    metadata = dataset.read_metadata(ids)
    if metadata.class_numbers is None or not images_per_class:
        raise UsageError(
            f"labels='classes:{images_per_class}' is not allowed: {dataset.name} has no ground-truth classes, or the "
            "number is 0.",
            parameters=("labels",),
        )
    drawn: dict[int, str] = {}
    for number, name in enumerate(metadata.class_names):
        members = ids[metadata.class_numbers == number].tolist()
        members.sort(key=lambda image: hashlib.sha256(f"{seed}/{image}".encode()).digest())
        drawn.update(dict.fromkeys(members[:images_per_class], name))
    return LabelSet.from_mapping(drawn)
