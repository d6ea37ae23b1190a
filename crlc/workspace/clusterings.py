"""The clusters of a run as people edited them: which there are now, and edits checked before they are written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError, UsageError
from crlc.training.run_folder import RunFolder
from crlc.workspace.annotations import Annotations, Entry, unique_ids
from crlc.workspace.curation import Curation, edited_clusters
from crlc.workspace.operations import MergeClusters, MoveImages, NameCluster, SplitCluster, check_name
from crlc.workspace.run_files import read_result

_FEWEST = 2
_NAMED_IN_ERRORS = 5
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Clustering:
    """What the newest result of a run says of the images that still are what it saw."""

    run: str
    result: str
    """Fingerprint of all ids and clusters of the result: the edits of another result are not about this one."""

    count: int
    """The number of clusters that the run was to find; some may be empty."""

    rows: Ids
    """Where these images stand in the result's arrays, ascending."""

    ids: Ids
    clusters: NDArray[np.int32]
    confidence: NDArray[np.float32]

    @classmethod
    def of(cls, run: RunFolder, dataset: ImageDataset, arrays: Mapping[str, NDArray[Any]] | None = None) -> Clustering:
        """Read it.

        Args:
            run: which.
            dataset: the run's.
            arrays: of its result, where they were read already: there may be a newer one by now.

        Raises:
            NotFoundError: the run has no result yet.
            DamagedError: the result cannot be used.
        """
        arrays = read_result(run).arrays if arrays is None else arrays
        ids = np.array(arrays["ids"], dtype=np.int64)
        clusters = np.array(arrays["cluster"], dtype=np.int32)
        contents = dataset.content_versions(ids)
        rows = np.flatnonzero((contents > 0) & (contents <= run.description()["manifest_version"]))
        return cls(
            run=run.id,
            result=_fingerprint(ids, clusters),
            count=int(arrays["q"].shape[1]),
            rows=rows,
            ids=ids[rows],
            clusters=clusters[rows],
            confidence=np.asarray(arrays["confidence"][rows], dtype=np.float32),
        )

    def edited(self, curation: Curation) -> EditedClustering:
        """The clusters after all edits of this result."""
        edits = curation.edits(self.run, self.result)
        return EditedClustering(
            numbers=tuple(edits.numbers(self.count)),
            names=dict(edits.names),
            ids=self.ids,
            clusters=edited_clusters(self.ids, self.clusters, edits),
            confidence=self.confidence,
            by_hand=edits.by_hand.at(self.ids),
            merged=edits.merged,
            first_new=max(self.count, edits.largest + 1),
        )


@dataclass(frozen=True)
class EditedClustering:
    """Clusters as they are now, with one entry per image in `ids`."""

    numbers: tuple[int, ...]
    """Every cluster there is, also the empty ones, ascending."""

    names: Mapping[int, str]
    ids: Ids
    clusters: NDArray[np.int32]
    confidence: NDArray[np.float32]
    """How sure the run was of the cluster that it chose itself."""

    by_hand: NDArray[np.bool_]
    """Whether a person put the image where it is."""

    merged: Mapping[int, int]
    first_new: int
    """The number that the next new cluster gets."""

    def sizes(self) -> dict[int, int]:
        """How many images each cluster has."""
        counts = np.bincount(self.clusters, minlength=self.first_new)
        return {number: int(counts[number]) for number in self.numbers}

    def mean_confidence(self) -> dict[int, float | None]:
        """The mean confidence of each cluster; none for an empty one."""
        sums = np.bincount(self.clusters, weights=self.confidence, minlength=self.first_new)
        return {number: float(sums[number] / size) if size else None for number, size in self.sizes().items()}

    def moved_under_names(self) -> dict[int, str]:
        """The name of the cluster of each image that a person moved into a named one, by image id."""
        moved = np.flatnonzero(self.by_hand & np.isin(self.clusters, list(self.names)))
        return {int(self.ids[row]): self.names[int(self.clusters[row])] for row in moved}

    def members(self, cluster: int) -> Ids:
        """Positions in `ids` of the images of a cluster.

        Raises:
            NotFoundError: there is no such cluster.
        """
        self.require(cluster)
        return np.flatnonzero(self.clusters == cluster)

    def require(self, cluster: int) -> None:
        """Check that there is such a cluster.

        Raises:
            NotFoundError: there is none; it says where it went.
        """
        if cluster in self.numbers:
            return
        if cluster in self.merged:
            raise NotFoundError(f"There is no cluster {cluster} any more: it was merged into {self.merged[cluster]}.")
        raise NotFoundError(f"There is no cluster {cluster}. The highest number is {self.numbers[-1]}.")


class ClusterEditor:
    """Edits the clusters of one result. Each edit is checked against the newest state, then written."""

    def __init__(self, annotations: Annotations, clustering: Clustering) -> None:
        """Take the annotations of the data set and the clusters that the run found."""
        self._annotations, self._clustering = annotations, clustering

    def current(self) -> EditedClustering:
        """The clusters as they are now."""
        return self._clustering.edited(self._annotations.refresh())

    def name(self, cluster: int, name: str | None) -> Entry | None:
        """Name a cluster; none takes its name away. Returns none when nothing changes, as all edits do.

        Raises:
            UsageError: the name cannot be one.
            NotFoundError: there is no such cluster.
        """
        return self._annotations.record(partial(self._name, cluster, name if name is None else check_name(name)))

    def merge(self, clusters: Sequence[int]) -> Entry | None:
        """Make one cluster of several; it keeps the smallest number, and its name or else that of the next.

        Raises:
            UsageError: fewer than two, or one of them twice.
            NotFoundError: one does not exist.
        """
        return self._annotations.record(partial(self._merge, clusters))

    def split(self, cluster: int, parts: Sequence[Iterable[int]]) -> Entry | None:
        """Make several clusters of one: the first part keeps number and name, the others come after the largest.

        Args:
            cluster: which.
            parts: the ids of the images of each; together exactly those of the cluster.

        Raises:
            UsageError: fewer than two parts, an empty one, or other images than the cluster's.
            NotFoundError: there is no such cluster.
        """
        return self._annotations.record(partial(self._split, cluster, [np.array(list(p), np.int64) for p in parts]))

    def move(self, ids: Iterable[int], cluster: int) -> Entry | None:
        """Put images into another cluster.

        Raises:
            NotFoundError: there is no such cluster, or an image is not part of the run.
        """
        return self._annotations.record(partial(self._move, unique_ids(ids), cluster))

    # ---- what is written, in view of the newest state

    def _name(self, cluster: int, name: str | None, state: Curation) -> NameCluster | None:
        now = self._clustering.edited(state)
        now.require(cluster)
        if now.names.get(cluster) == name:
            return None
        return NameCluster(self._clustering.run, self._clustering.result, cluster, name)

    def _merge(self, clusters: Sequence[int], state: Curation) -> MergeClusters:
        now = self._clustering.edited(state)
        for cluster in clusters:
            now.require(cluster)
        chosen = tuple(sorted(set(clusters)))
        if len(chosen) < len(clusters):
            raise UsageError(f"A cluster cannot be merged with itself: {', '.join(map(str, clusters))}.")
        if len(chosen) < _FEWEST:
            raise UsageError("Merging needs at least two clusters.")
        return MergeClusters(self._clustering.run, self._clustering.result, chosen)

    def _split(self, cluster: int, parts: Sequence[Ids], state: Curation) -> SplitCluster:
        now = self._clustering.edited(state)
        members = now.ids[now.members(cluster)]
        if not _FEWEST <= len(parts) <= len(members):
            raise UsageError(
                f"Cluster {cluster} with {len(members):,} images cannot be split into {len(parts)}: "
                "there must be at least two parts, and an image for each."
            )
        if not all(len(part) for part in parts):
            raise UsageError(f"A part of cluster {cluster} would be empty.")
        together = np.sort(np.concatenate(parts))
        if not np.array_equal(together, np.sort(members)):
            raise UsageError(
                f"The parts must hold each image of cluster {cluster} once, and no other; it has {len(members):,} "
                f"images, the parts have {len(together):,}. It may have changed in another window: look again."
            )
        ids = tuple(tuple(part.tolist()) for part in parts)
        return SplitCluster(self._clustering.run, self._clustering.result, cluster, ids, now.first_new)

    def _move(self, ids: Ids, cluster: int, state: Curation) -> MoveImages | None:
        now = self._clustering.edited(state)
        now.require(cluster)
        unknown = ids[~np.isin(ids, now.ids)]
        if len(unknown):
            named = ", ".join(map(str, unknown[:_NAMED_IN_ERRORS].tolist()))
            raise NotFoundError(f"{self._clustering.run} has not assigned the images {named}. Nothing was changed.")
        moved = now.ids[np.isin(now.ids, ids) & (now.clusters != cluster)]
        if not len(moved):
            return None
        return MoveImages(self._clustering.run, self._clustering.result, tuple(moved.tolist()), cluster)


def _fingerprint(ids: Ids, clusters: NDArray[np.int32]) -> str:
    digest = hashlib.blake2b(ids.astype("<i8").tobytes(), digest_size=8)
    digest.update(clusters.astype("<i4").tobytes())
    return digest.hexdigest()
