"""Clusters of a run, as predicted and after the user's edits, and the editor that records edits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.annotations.label_set import LabelSet
from crlc.annotations.operations import (
    ClusterEdit,
    ClusterNames,
    MergeClusters,
    MoveImages,
    NameCluster,
    SplitCluster,
    normalize_ids,
    normalize_name,
)
from crlc.annotations.state import AnnotationState, apply_cluster_edits
from crlc.annotations.store import AnnotationStore, HistoryEntry
from crlc.arrays import ImageIds, IntArray
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError, UsageError
from crlc.formatting import format_count, format_list
from crlc.runs.folder import RunFolder
from crlc.runs.results import read_result

_MIN_PARTS = 2
_IDS_IN_ERRORS = 5


@dataclass(frozen=True)
class Clustering:
    """Clusters in the newest result of a run, for the images that have not changed since the run."""

    run: str
    result: str
    """Fingerprint of the ids and clusters of the result. Edits apply only to the result that they were made for."""

    count: int
    """Number of clusters of the run; some may be empty."""

    rows: IntArray
    """Row of each image in the arrays of the result, ascending."""

    ids: ImageIds
    clusters: NDArray[np.int32]
    confidence: NDArray[np.float32]

    @classmethod
    def from_run(
        cls, run: RunFolder, dataset: ImageDataset, arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> Clustering:
        """Read the clusters of the newest result of a run.

        Args:
            run: the run.
            dataset: dataset of the run.
            arrays: arrays of its result, if the caller has read them already; `None` to read the newest result.

        Raises:
            NotFoundError: the run has no result yet.
            DamagedError: the result is damaged.
        """
        arrays = read_result(run).arrays if arrays is None else arrays
        ids = np.array(arrays["ids"], dtype=np.int64)
        clusters = np.array(arrays["cluster"], dtype=np.int32)
        contents = dataset.read_content_versions(ids)
        rows = np.flatnonzero((contents > 0) & (contents <= run.read_metadata()["manifest_version"]))
        return cls(
            run=run.id,
            result=_fingerprint(ids, clusters),
            count=int(arrays["q"].shape[1]),
            rows=rows,
            ids=ids[rows],
            clusters=clusters[rows],
            confidence=np.asarray(arrays["confidence"][rows], dtype=np.float32),
        )

    def apply_edits(self, annotations: AnnotationState) -> EditedClustering:
        """Return the clusters after all edits of this result."""
        edits = annotations.get_edits(self.run, self.result)
        return EditedClustering(
            numbers=tuple(edits.list_clusters(self.count)),
            names=dict(edits.names),
            ids=self.ids,
            clusters=apply_cluster_edits(self.ids, self.clusters, edits),
            confidence=self.confidence,
            is_moved=edits.is_moved.get(self.ids),
            merged=edits.merged,
            first_new=max(self.count, edits.largest + 1),
        )


@dataclass(frozen=True)
class EditedClustering:
    """Clusters after all edits. Arrays have one element per image in `ids`."""

    numbers: tuple[int, ...]
    """Numbers of all clusters, including empty ones, ascending."""

    names: Mapping[int, str]
    ids: ImageIds
    clusters: NDArray[np.int32]
    confidence: NDArray[np.float32]
    """Confidence of the run in the cluster that it assigned."""

    is_moved: NDArray[np.bool_]
    """True for images that the user moved to their cluster."""

    merged: Mapping[int, int]
    """Number of each cluster that was merged into another, with the number of that other cluster."""

    first_new: int
    """Number of the next new cluster."""

    def count_images(self) -> dict[int, int]:
        """Return the number of images of each cluster."""
        counts = np.bincount(self.clusters, minlength=self.first_new)
        return {number: int(counts[number]) for number in self.numbers}

    def compute_mean_confidence(self) -> dict[int, float | None]:
        """Return the mean confidence of each cluster, or `None` for an empty one."""
        sums = np.bincount(self.clusters, weights=self.confidence, minlength=self.first_new)
        return {number: float(sums[number] / size) if size else None for number, size in self.count_images().items()}

    def get_labels_of_moved_images(self) -> LabelSet:
        """Return the cluster names of the images that the user moved into a named cluster, as labels."""
        moved = np.flatnonzero(self.is_moved & np.isin(self.clusters, list(self.names)))
        return LabelSet.from_mapping({int(self.ids[row]): self.names[int(self.clusters[row])] for row in moved})

    def find_members(self, cluster: int) -> ImageIds:
        """Return the indices in `ids` of the images of a cluster.

        Raises:
            NotFoundError: the cluster does not exist.
        """
        self.require_cluster(cluster)
        return np.flatnonzero(self.clusters == cluster)

    def require_cluster(self, cluster: int) -> None:
        """Check that a cluster exists.

        Raises:
            NotFoundError: it does not exist; the message names the cluster that it was merged into, if any.
        """
        if cluster in self.numbers:
            return
        if cluster in self.merged:
            raise NotFoundError(f"The cluster {cluster} does not exist: it was merged into {self.merged[cluster]}.")
        raise NotFoundError(f"The cluster {cluster} does not exist: the highest number is {self.numbers[-1]}.")


class ClusterEditor:
    """Editor of the clusters of one result. Each edit is checked against the newest state and recorded.

    Every edit returns its history entry, or `None` when nothing changes.
    """

    def __init__(
        self, annotations: AnnotationStore, clustering: Clustering, names: ClusterNames = MappingProxyType({})
    ) -> None:
        """Store the annotations of the dataset and the clusters of the result.

        Args:
            annotations: annotations of the dataset.
            clustering: clusters of the result.
            names: names of the clusters as the user sees them, for the history.
        """
        self._annotations, self._clustering, self._names = annotations, clustering, names

    def read_current(self) -> EditedClustering:
        """Return the clusters after all edits."""
        return self._clustering.apply_edits(self._annotations.refresh())

    def set_name(self, cluster: int, name: str | None) -> HistoryEntry | None:
        """Set the name of a cluster, or remove it with `None`.

        Raises:
            UsageError: the name is not allowed.
            NotFoundError: the cluster does not exist.
        """
        return self._record(partial(self._name, cluster, name if name is None else normalize_name(name)))

    def merge(self, clusters: Sequence[int]) -> HistoryEntry | None:
        """Merge clusters into the one with the smallest number, which keeps its name or gets that of the next one.

        Raises:
            UsageError: there are fewer than two clusters, or one is given twice.
            NotFoundError: one of them does not exist.
        """
        return self._record(partial(self._merge, clusters))

    def split(self, cluster: int, parts: Sequence[Iterable[int]]) -> HistoryEntry | None:
        """Split a cluster. The first part keeps the number and name of the cluster; the others get new, higher numbers.

        Args:
            cluster: number of the cluster.
            parts: image ids of each part; every image of the cluster must be in exactly one part.

        Raises:
            UsageError: there are fewer than two parts, one is empty, or the images differ from the cluster's images.
            NotFoundError: the cluster does not exist.
        """
        return self._record(partial(self._split, cluster, [np.array(list(p), np.int64) for p in parts]))

    def move(self, ids: Iterable[int], cluster: int) -> HistoryEntry | None:
        """Move images to another cluster.

        Raises:
            NotFoundError: the cluster does not exist, or an image is not part of the run.
        """
        return self._record(partial(self._move, normalize_ids(ids), cluster))

    # ---- operations, created from the newest state

    def _record(self, make: Callable[[AnnotationState], ClusterEdit | None]) -> HistoryEntry | None:
        return self._annotations.record(make, self._names)

    def _name(self, cluster: int, name: str | None, state: AnnotationState) -> NameCluster | None:
        current = self._clustering.apply_edits(state)
        current.require_cluster(cluster)
        if current.names.get(cluster) == name:
            return None
        return NameCluster(self._clustering.run, self._clustering.result, cluster, name)

    def _merge(self, clusters: Sequence[int], state: AnnotationState) -> MergeClusters:
        current = self._clustering.apply_edits(state)
        for cluster in clusters:
            current.require_cluster(cluster)
        chosen = tuple(sorted(set(clusters)))
        if len(chosen) < len(clusters):
            raise UsageError(f"clusters={', '.join(map(str, clusters))} is not allowed: a cluster is given twice.")
        if len(chosen) < _MIN_PARTS:
            raise UsageError(f"{len(chosen)} cluster cannot be merged: at least two are needed.")
        return MergeClusters(self._clustering.run, self._clustering.result, chosen)

    def _split(self, cluster: int, parts: Sequence[ImageIds], state: AnnotationState) -> SplitCluster:
        current = self._clustering.apply_edits(state)
        members = current.ids[current.find_members(cluster)]
        if not _MIN_PARTS <= len(parts) <= len(members):
            raise UsageError(
                f"Cluster {cluster} with {format_count(len(members), 'image')} cannot be split into {len(parts)}: "
                "there must be at least two parts with one image each."
            )
        if not all(len(part) for part in parts):
            raise UsageError(f"Cluster {cluster} cannot be split: a part is empty.")
        together = np.sort(np.concatenate(parts))
        if not np.array_equal(together, np.sort(members)):
            raise UsageError(
                f"The parts must contain each image of cluster {cluster} once, and no others. It has {len(members):,} "
                f"images, the parts have {len(together):,}.",
                advice="The cluster may have been edited in another window: refresh and try again.",
            )
        ids = tuple(tuple(part.tolist()) for part in parts)
        return SplitCluster(self._clustering.run, self._clustering.result, cluster, ids, current.first_new)

    def _move(self, ids: ImageIds, cluster: int, state: AnnotationState) -> MoveImages | None:
        current = self._clustering.apply_edits(state)
        current.require_cluster(cluster)
        unknown = ids[~np.isin(ids, current.ids)]
        if len(unknown):
            nouns = "image with id" if len(unknown) == 1 else "images with ids"
            named = format_list([*map(str, unknown.tolist())], _IDS_IN_ERRORS)
            raise NotFoundError(f"The run has no {nouns} {named}. Nothing was changed.")
        moved = current.ids[np.isin(current.ids, ids) & (current.clusters != cluster)]
        if not len(moved):
            return None
        return MoveImages(self._clustering.run, self._clustering.result, tuple(moved.tolist()), cluster)


def _fingerprint(ids: ImageIds, clusters: NDArray[np.int32]) -> str:
    digest = hashlib.blake2b(ids.astype("<i8").tobytes(), digest_size=8)
    digest.update(clusters.astype("<i4").tobytes())
    return digest.hexdigest()
