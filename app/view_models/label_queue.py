"""Queue of images to label: suggested images, a selection, or the least confident images of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.view_models.cluster_view import (
    LEAST_CONFIDENT,
    OUTLIERS,
    ClusterView,
    DatasetView,
    RowIndices,
    RunView,
)
from crlc.analysis.label_suggestions import REPRESENTATIVE, UNLIKE_LABELLED, suggest_images_to_label
from crlc.analysis.quality import ImageQuality
from crlc.annotations.state import AnnotationState
from crlc.arrays import ImageIds

SUGGESTED, SELECTION, CLUSTER = "suggested", "selection", "cluster"
INITIAL_COUNT, REFILL_COUNT = 36, 24
_MIN_IMAGES_AHEAD = 14
_MAX_QUEUE_IMAGES = 2000
"""Longest queue: more images than a user labels in one session."""

_LOADED_AHEAD, _LOADED_BEHIND = 28, 8


@dataclass
class LabelQueue:
    """Images to label, in order, including those that are labelled already."""

    ids: list[int] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)
    """Reason of each suggestion, by image id."""

    omitted: int = 0
    """Number of images that were left out to limit the length of the queue."""

    def list_images_around(self, current: int | None) -> list[int]:
        """Return the images around the current one, which the browser loads in advance."""
        index = self.ids.index(current) if current in self.ids else 0
        return self.ids[max(0, index - _LOADED_BEHIND) : index + _LOADED_AHEAD]


def suggest_images(
    view: ClusterView, annotation_state: AnnotationState, ids_to_skip: Collection[int], count: int
) -> LabelQueue:
    """Return the images that are most useful to label: diverse, from every cluster, and increasingly uncertain.

    Before training nothing is known about uncertainty: images near the centre of each provisional cluster come first,
    then images unlike those.

    Args:
        view: the run or dataset.
        annotation_state: current labels and exclusions.
        ids_to_skip: images not to suggest, such as those in the queue already.
        count: maximum number of images.
    """
    labelled = annotation_state.has_label(view.ids)
    # Images in the queue count as labelled, so that the next suggestions are unlike them.
    known = labelled | np.isin(view.ids, np.fromiter(ids_to_skip, np.int64, len(ids_to_skip)))
    excluded = annotation_state.is_excluded(view.ids)
    if (known | excluded).all():
        return LabelQueue()
    vectors, quality = _load_suggestion_inputs(view)
    found = suggest_images_to_label(vectors, view.clusters, quality, count, labelled=known, excluded=excluded)
    ids, reasons = view.ids[found.rows].tolist(), found.reasons
    if view.confidence is None:  # without probabilities, no image is known to be between two clusters
        reasons = tuple(reason if reason == REPRESENTATIVE else UNLIKE_LABELLED for reason in reasons)
    return LabelQueue(ids, dict(zip(ids, reasons, strict=True)))


def queue_selection(view: ClusterView, ids: ImageIds, *, is_ordered: bool) -> LabelQueue:
    """Return a queue of selected images: in their own order, or the least confident first."""
    rows = view.find_rows(ids if is_ordered else np.sort(ids))
    if not is_ordered:
        rows = view.sort_rows(rows, get_review_order(view))
    return _build_queue(view, rows)


def queue_cluster(view: ClusterView, cluster: int) -> LabelQueue:
    """Return a queue of the images of a cluster: least confident first, or outliers first before training."""
    rows = np.flatnonzero(view.clusters == cluster)
    return _build_queue(view, view.sort_rows(rows, get_review_order(view)))


def get_review_order(view: ClusterView) -> str:
    """Return the order in which the images that most need a review come first."""
    return LEAST_CONFIDENT if isinstance(view, RunView) else OUTLIERS


def refill_queue(
    queue: LabelQueue,
    current: int | None,
    view: ClusterView,
    annotation_state: AnnotationState,
    skipped: Collection[int],
) -> bool:
    """Append suggestions when few images are left to label after the current one.

    Args:
        queue: is extended in place.
        current: the image that the user sees.
        view: the run or dataset.
        annotation_state: current labels and exclusions.
        skipped: images that the user skipped.

    Returns:
        Whether images were appended.
    """
    index = queue.ids.index(current) if current in queue.ids else -1
    ahead = filter_undecided(queue.ids[index + 1 :], annotation_state, skipped)
    if len(ahead) >= _MIN_IMAGES_AHEAD:
        return False
    more = suggest_images(view, annotation_state, {*queue.ids, *skipped}, REFILL_COUNT)
    queue.ids += more.ids
    queue.reasons |= more.reasons
    return bool(more.ids)


def filter_undecided(ids: Sequence[int], annotation_state: AnnotationState, skipped: Collection[int]) -> list[int]:
    """Return the images that are neither labelled, excluded nor skipped."""
    if not ids:
        return []
    array = np.asarray(ids, np.int64)
    is_open = ~(annotation_state.has_label(array) | annotation_state.is_excluded(array))
    return [image for image in array[is_open].tolist() if image not in skipped]


def can_reuse_view(older: ClusterView | None, newer: ClusterView) -> bool:
    """Return whether an older view can stay in use: same result, clusters and names, except for newly excluded images.

    A new view would compare all images with their neighbours, which is too slow after each exclusion.
    """
    if (
        older is None
        or type(older) is not type(newer)
        or older.source_key != newer.source_key
        or older.cluster_names != newer.cluster_names
    ):
        return False
    rows = older.find_rows(newer.ids)
    return len(rows) == len(newer.ids) and np.array_equal(older.clusters[rows], newer.clusters)


def merge_names(known: Sequence[str], clusters: Mapping[int, str], used: Iterable[str]) -> list[str]:
    """Return the names to choose from. Known names keep their position, because number keys refer to positions.

    Args:
        known: names so far, in their order.
        clusters: names of clusters by number; they come first among the new names.
        used: labels in use; those of new decisions in the order of the decisions.
    """
    named = [clusters[number] for number in sorted(clusters)]
    return list(dict.fromkeys([*known, *named, *used]))


def _build_queue(view: ClusterView, rows: RowIndices) -> LabelQueue:
    return LabelQueue(view.ids[rows[:_MAX_QUEUE_IMAGES]].tolist(), omitted=max(0, len(rows) - _MAX_QUEUE_IMAGES))


@lru_cache(maxsize=2)
def _load_suggestion_inputs(view: ClusterView) -> tuple[NDArray[np.float32], ImageQuality]:
    if isinstance(view, RunView):
        return view.analysis.z, view.compute_quality().images
    assert isinstance(view, DatasetView)
    exploration = view.exploration
    kept = np.isin(exploration.ids, view.ids)
    ones = np.ones(len(view.ids), np.float32)
    # k-means gives no probabilities: only the typicality is known, all other values are equal for all images.
    quality = ImageQuality(
        confidence=ones,
        second_cluster=view.clusters,
        second_probability=0 * ones,
        margin=ones,
        neighbour_agreement=ones,
        subhead_agreement=None,
        silhouette=ones,
        typicality=-exploration.distance[kept],
        outlier_score=ones,
    )
    return exploration.vectors if kept.all() else exploration.vectors[kept], quality
