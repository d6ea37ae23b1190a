"""Exported values of every image of a dataset, in chunks ordered by path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.maps.settings import MapSettings
from crlc.annotations.label_set import LabelSet
from crlc.annotations.state import AnnotationState
from crlc.arrays import FloatArray
from crlc.clusters.clustering import Clustering, EditedClustering
from crlc.clusters.names import get_display_names
from crlc.clusters.probabilities import MISSING, find_second_best
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.data.manifest_columns import TextColumn, read_image_columns
from crlc.paths import decode_path
from crlc.progress import ProgressCallback, no_progress
from crlc.runs.folder import RunFolder
from crlc.runs.maps import load_any_map, load_or_compute_run_map
from crlc.runs.results import read_result

if TYPE_CHECKING:
    import pyarrow

PROVISIONAL = "provisional"
"""Value of `RunExport.run` for the clusters of a dataset without runs."""

_CHUNK_ROWS = 16_384
_PROBABILITIES_IN_MEMORY = 1 << 22


class CodedTexts(NamedTuple):
    """Dictionary-encoded texts: a code per row and the distinct texts."""

    codes: NDArray[Any]
    """Index of each text in `names`, or `MISSING`, (n,)."""

    names: Sequence[str]

    def decode(self) -> list[str | None]:
        """Return the text of each row, or `None`."""
        return [None if number == MISSING else self.names[number] for number in self.codes.tolist()]


@dataclass(frozen=True)
class RowChunk:
    """Values of some images; arrays and lists have one entry per image."""

    ids: NDArray[np.int64]
    stored_paths: pyarrow.LargeBinaryArray
    """Paths as bytes: file names need not be valid Unicode."""

    class_: CodedTexts
    cluster: NDArray[np.int32]
    """Cluster after manual edits; `MISSING` for images that were added or changed after the run."""

    confidence: NDArray[np.float32]
    """Probability of the cluster that the model predicted."""

    second_cluster: NDArray[np.int32]
    """Most probable other cluster; `MISSING` if there is none."""

    second_probability: NDArray[np.float32]
    label: CodedTexts
    is_manual: NDArray[np.bool_]
    """True for images that were labelled or moved manually."""

    is_excluded: NDArray[np.bool_]
    coordinates: FloatArray
    """Map coordinates, (n, 2); NaN for images that are not on the map."""

    @cached_property
    def paths(self) -> list[str]:
        """Paths as text."""
        return [decode_path(stored) for stored in self.stored_paths.to_pylist()]

    @cached_property
    def classes(self) -> list[str | None]:
        """Ground-truth class of each image."""
        return self.class_.decode()

    @cached_property
    def labels(self) -> list[str | None]:
        """Manual label of the current content of each image."""
        return self.label.decode()

    @property
    def is_assigned(self) -> NDArray[np.bool_]:
        """True for images that have a cluster."""
        return self.cluster != MISSING  # type: ignore[no-any-return]

    @property
    def is_included(self) -> NDArray[np.bool_]:
        """True for images with a cluster that are not excluded."""
        return self.is_assigned & ~self.is_excluded

    def count_excluded(self) -> int:
        """Return the number of excluded images."""
        return int(self.is_excluded.sum())

    def count_not_assigned(self) -> int:
        """Return the number of images without a cluster that are not excluded."""
        return int((~self.is_assigned & ~self.is_excluded).sum())

    @property
    def is_on_map(self) -> NDArray[np.bool_]:
        """True for images that are on the map."""
        return np.isfinite(self.coordinates[:, 0])


@dataclass(frozen=True)
class RunExport:
    """Result of a run combined with the annotations of its dataset."""

    run: str
    dataset: ImageDataset
    names: Mapping[int, str]
    """Cluster names by number."""

    clusters: EditedClustering
    last_version: int
    """Manifest version at the time of the run. Images with later content have no cluster."""

    q: NDArray[Any] | None
    """Cluster probabilities; `None` for provisional clusters, which have none."""

    predicted: NDArray[np.int32]
    """Cluster that the model predicted for each image of `clusters`."""

    rows: NDArray[np.int64]
    """Row of each image of `clusters` in `q` and `coordinates`."""

    index_by_id: NDArray[np.int64]
    """Index in `clusters` of each image id, or `MISSING`."""

    labelled: LabelSet
    annotations: AnnotationState
    coordinates: FloatArray | None

    @classmethod
    def from_run(
        cls,
        run: RunFolder,
        dataset: ImageDataset,
        annotations: AnnotationState,
        *,
        map_settings: MapSettings | None = None,
        report: ProgressCallback = no_progress,
    ) -> RunExport:
        """Combine the newest result of a run with annotations.

        Args:
            run: the run.
            dataset: dataset of the run.
            annotations: current labels, exclusions and edits of the dataset.
            map_settings: map to load, or to compute if it is not stored; `None` for any stored map.
            report: receives the progress of the map.

        Raises:
            NotFoundError: the run has no result.
            DamagedError: the result cannot be read.
        """
        metadata = run.read_metadata()
        arrays = read_result(run).arrays
        clustering = Clustering.from_run(run, dataset, arrays)
        z = arrays["z"]
        coordinates = (
            load_any_map(run, z) if map_settings is None else load_or_compute_run_map(run, z, map_settings, report)
        )
        edited = clustering.apply_edits(annotations)
        index_by_id = np.full(int(clustering.ids.max(initial=0)) + 1, MISSING, np.int64)
        index_by_id[clustering.ids] = np.arange(len(clustering.ids))
        return cls(
            run=run.id,
            dataset=dataset,
            names=get_display_names(metadata, edited),
            clusters=edited,
            last_version=int(metadata["manifest_version"]),
            q=arrays["q"],
            predicted=clustering.clusters,
            rows=clustering.rows,
            index_by_id=index_by_id,
            labelled=annotations.to_label_set(),
            annotations=annotations,
            coordinates=coordinates,
        )

    @classmethod
    def from_provisional_clusters(
        cls,
        dataset: ImageDataset,
        annotations: AnnotationState,
        ids: NDArray[np.int64],
        clusters: NDArray[np.int64],
        coordinates: FloatArray,
    ) -> RunExport:
        """Combine provisional clusters, of a dataset without runs, with annotations. They have no confidence.

        Args:
            dataset: the dataset.
            annotations: current labels and exclusions of the dataset.
            ids: ids of the clustered images, (N,).
            clusters: their clusters, (N,).
            coordinates: their map coordinates, (N, 2).
        """
        numbers, count = clusters.astype(np.int32), int(clusters.max(initial=0)) + 1
        index_by_id = np.full(int(ids.max(initial=0)) + 1, MISSING, np.int64)
        index_by_id[ids] = np.arange(len(ids))
        return cls(
            run=PROVISIONAL,
            dataset=dataset,
            names={},
            clusters=EditedClustering(
                numbers=tuple(range(count)),
                names={},
                ids=ids,
                clusters=numbers,
                confidence=np.full(len(ids), np.nan, np.float32),
                is_moved=np.zeros(len(ids), np.bool_),
                merged={},
                first_new=count,
            ),
            last_version=dataset.version,
            q=None,
            predicted=numbers,
            rows=np.arange(len(ids)),
            index_by_id=index_by_id,
            labelled=annotations.to_label_set(),
            annotations=annotations,
            coordinates=coordinates,
        )

    def iterate_chunks(self) -> Iterator[RowChunk]:
        """Yield all readable images of the dataset, ordered by the bytes of their paths."""
        import pyarrow as pa
        from pyarrow import compute

        with Manifest(self.dataset.folder) as manifest:
            images = read_image_columns(manifest)
        paths = _to_arrow(images.paths, pa.large_binary())
        coded = _to_arrow(images.classes, pa.large_string()).dictionary_encode()
        classes = np.where(images.classes.lengths < 0, MISSING, np.asarray(coded.indices))
        names = coded.dictionary.to_pylist()
        order = np.asarray(compute.sort_indices(paths))
        for start in range(0, len(order), _CHUNK_ROWS):
            rows = order[start : start + _CHUNK_ROWS]
            known = CodedTexts(classes[rows], names)
            yield self._build_chunk(images.ids[rows], images.content_versions[rows], paths.take(pa.array(rows)), known)

    def count_images(self) -> int:
        """Return the approximate number of images that `iterate_chunks` yields: an import may be running."""
        with Manifest(self.dataset.folder) as manifest:
            return manifest.count("ok")

    def _build_chunk(
        self,
        ids: NDArray[np.int64],
        versions: NDArray[np.int64],
        paths: pyarrow.LargeBinaryArray,
        classes: CodedTexts,
    ) -> RowChunk:
        highest = len(self.index_by_id) - 1
        at = np.where(ids <= highest, self.index_by_id[np.minimum(ids, highest)], MISSING)
        known = np.flatnonzero((at != MISSING) & (versions <= self.last_version))
        at = at[known]
        cluster, second = np.full((2, len(ids)), MISSING, np.int32)
        confidence, probability = np.full((2, len(ids)), np.nan, np.float32)
        coordinates = np.full((len(ids), 2), np.nan, np.float32)
        by_hand = np.zeros(len(ids), np.bool_)
        cluster[known] = self.clusters.clusters[at]
        confidence[known] = self.clusters.confidence[at]
        by_hand[known] = self.clusters.is_moved[at]
        second[known], probability[known] = (part[at] for part in self._second_best)
        if self.coordinates is not None:
            coordinates[known] = self.coordinates[self.rows[at]]
        label = self._find_labels(ids, versions)
        return RowChunk(
            ids=ids,
            stored_paths=paths,
            class_=classes,
            cluster=cluster,
            confidence=confidence,
            second_cluster=second,
            second_probability=probability,
            label=label,
            is_manual=by_hand | (label.codes != MISSING),
            is_excluded=self.annotations.is_excluded(ids),
            coordinates=coordinates,
        )

    @cached_property
    def _second_best(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Second best cluster of each image of `clusters` and its probability; `q` on disk is read sequentially."""
        count = len(self.rows)
        second, probability = np.full(count, MISSING, np.int32), np.full(count, np.nan, np.float32)
        if self.q is None:
            return second, probability
        step = max(1, _PROBABILITIES_IN_MEMORY // self.q.shape[1])
        for start in range(0, count, step):
            part = slice(start, start + step)
            now = self.clusters.clusters[part]
            # A cluster created by a split has no column in q: the column of the cluster that was split is used.
            own = np.where(self.clusters.is_moved[part], now, self.predicted[part])
            q = np.array(self.q[self.rows[part]], np.float32)
            second[part], probability[part] = find_second_best(q, self.clusters.merged, now, own)
        return second, probability

    def _find_labels(self, ids: NDArray[np.int64], versions: NDArray[np.int64]) -> CodedTexts:
        """Return the labels of images whose content has not changed since they were labelled."""
        labelled = self.labelled
        if not len(labelled.ids):
            return CodedTexts(np.full(len(ids), MISSING), ())
        found = np.minimum(np.searchsorted(labelled.ids, ids), len(labelled.ids) - 1)
        valid = (labelled.ids[found] == ids) & (labelled.content_versions[found] == versions)
        return CodedTexts(np.where(valid, labelled.codes[found], MISSING), labelled.names)


def _to_arrow(column: TextColumn, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return texts as an Arrow array without a copy; missing texts are empty."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(column.content)]
    return pa.Array.from_buffers(kind, len(column.lengths), buffers)
