"""What is exported of each image, a chunk at a time, in the order of the paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.map_settings import MapSettings
from crlc.analysis.unit_rows import Vectors
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.data.manifest_columns import TextColumn, readable_images
from crlc.names import path_from_bytes
from crlc.progress import ProgressCallback, no_progress
from crlc.training.run_folder import RunFolder
from crlc.workspace.cluster_names import shown_names
from crlc.workspace.clusterings import Clustering, EditedClustering
from crlc.workspace.curation import Curation, LabelledImages
from crlc.workspace.run_files import read_result
from crlc.workspace.run_maps import kept_map, run_map

if TYPE_CHECKING:
    import pyarrow

NONE = -1
_MOST_ROWS = 16_384
_MOST_VALUES = 1 << 22
"""Probabilities in memory at once."""


class Repeated(NamedTuple):
    """Texts of which many are the same."""

    numbers: NDArray[Any]
    """Which of the names each one is; `NONE` for none, (n,)."""

    names: Sequence[str]

    def texts(self) -> list[str | None]:
        """One by one."""
        return [None if number == NONE else self.names[number] for number in self.numbers.tolist()]


@dataclass(frozen=True)
class Chunk:
    """Some images; arrays and lists have one entry for each."""

    ids: NDArray[np.int64]
    stored_paths: pyarrow.LargeBinaryArray
    """With every byte that they have."""

    class_: Repeated
    cluster: NDArray[np.int32]
    """As people edited it; `NONE` for what the run has not assigned, which is what came or changed since."""

    confidence: NDArray[np.float32]
    """How sure the run was of the cluster that it chose itself."""

    second: NDArray[np.int32]
    """The most probable of the other clusters; `NONE` where there is none."""

    second_probability: NDArray[np.float32]
    label: Repeated
    by_person: NDArray[np.bool_]
    """Labelled, or put into its cluster by hand."""

    excluded: NDArray[np.bool_]
    places: Vectors
    """On the map, (n, 2); not numbers where the image is not on it."""

    @cached_property
    def paths(self) -> list[str]:
        """As text."""
        return [path_from_bytes(stored) for stored in self.stored_paths.to_pylist()]

    @cached_property
    def classes(self) -> list[str | None]:
        """What came with the data."""
        return self.class_.texts()

    @cached_property
    def labels(self) -> list[str | None]:
        """What people said of the present content."""
        return self.label.texts()

    @property
    def assigned(self) -> NDArray[np.bool_]:
        """Whether the run has assigned the image."""
        return self.cluster != NONE  # type: ignore[no-any-return]

    @property
    def placed(self) -> NDArray[np.bool_]:
        """Whether the image is on the map."""
        return np.isfinite(self.places[:, 0])


@dataclass(frozen=True)
class RunExport:
    """Everything that is known of a run's images, ready to be read."""

    run: str
    dataset: ImageDataset
    names: Mapping[int, str]
    """Of clusters."""

    clusters: EditedClustering
    last_version: int
    """Of the manifest that the run saw: later content is another picture."""

    q: NDArray[Any]
    raw: NDArray[np.int32]
    """The cluster that the result gives to each image of `clusters`."""

    rows: NDArray[np.int64]
    """Where each image of `clusters` stands in `q` and `places`."""

    position: NDArray[np.int64]
    """Where an id stands in `clusters`; `NONE` where it does not."""

    labelled: LabelledImages
    curation: Curation
    places: Vectors | None

    @classmethod
    def of(
        cls,
        run: RunFolder,
        dataset: ImageDataset,
        curation: Curation,
        *,
        wanted_map: MapSettings | None = None,
        report: ProgressCallback = no_progress,
    ) -> RunExport:
        """Put a run's result and what people said of it together.

        Args:
            run: which.
            dataset: of the run.
            curation: the present labels, exclusions and edits of the data set.
            wanted_map: computed if need be; by default a map is taken that is there already, if any is.
            report: told how far the map is.

        Raises:
            NotFoundError: the run has no result yet.
            DamagedError: the result cannot be used.
        """
        description = run.description()
        arrays = read_result(run).arrays
        clustering = Clustering.of(run, dataset, arrays)
        z = arrays["z"]
        places = kept_map(run, z) if wanted_map is None else run_map(run, z, wanted_map, report)
        edited = clustering.edited(curation)
        position = np.full(int(clustering.ids.max(initial=0)) + 1, NONE, np.int64)
        position[clustering.ids] = np.arange(len(clustering.ids))
        return cls(
            run=run.id,
            dataset=dataset,
            names=shown_names(description, edited),
            clusters=edited,
            last_version=int(description["manifest_version"]),
            q=arrays["q"],
            raw=clustering.clusters,
            rows=clustering.rows,
            position=position,
            labelled=curation.labelled(),
            curation=curation,
            places=places,
        )

    def chunks(self) -> Iterator[Chunk]:
        """All readable images of the data set, by the bytes of their paths."""
        import pyarrow as pa
        from pyarrow import compute

        with Manifest(self.dataset.folder) as manifest:
            images = readable_images(manifest)
        paths = _texts(images.paths, pa.large_binary())
        coded = _texts(images.classes, pa.large_string()).dictionary_encode()
        classes = np.where(images.classes.lengths < 0, NONE, np.asarray(coded.indices))
        names = coded.dictionary.to_pylist()
        order = np.asarray(compute.sort_indices(paths))
        for start in range(0, len(order), _MOST_ROWS):
            rows = order[start : start + _MOST_ROWS]
            known = Repeated(classes[rows], names)
            yield self._chunk(images.ids[rows], images.content_versions[rows], paths.take(pa.array(rows)), known)

    def count(self) -> int:
        """How many images `chunks` will give, about: an import may be under way."""
        with Manifest(self.dataset.folder) as manifest:
            return manifest.count("ok")

    def _chunk(
        self,
        ids: NDArray[np.int64],
        versions: NDArray[np.int64],
        paths: pyarrow.LargeBinaryArray,
        classes: Repeated,
    ) -> Chunk:
        at = np.where(ids < len(self.position), self.position[np.minimum(ids, len(self.position) - 1)], NONE)
        known = np.flatnonzero((at != NONE) & (versions <= self.last_version))
        at = at[known]
        cluster, second = np.full((2, len(ids)), NONE, np.int32)
        confidence, probability = np.full((2, len(ids)), np.nan, np.float32)
        places = np.full((len(ids), 2), np.nan, np.float32)
        by_hand = np.zeros(len(ids), np.bool_)
        cluster[known] = self.clusters.clusters[at]
        confidence[known] = self.clusters.confidence[at]
        by_hand[known] = self.clusters.by_hand[at]
        second[known], probability[known] = (part[at] for part in self._second)
        if self.places is not None:
            places[known] = self.places[self.rows[at]]
        label = self._label(ids, versions)
        return Chunk(
            ids=ids,
            stored_paths=paths,
            class_=classes,
            cluster=cluster,
            confidence=confidence,
            second=second,
            second_probability=probability,
            label=label,
            by_person=by_hand | (label.numbers != NONE),
            excluded=self.curation.is_excluded(ids),
            places=places,
        )

    @cached_property
    def _second(self) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The second best cluster of each image of `clusters`, and its probability; the memory map is read forwards."""
        count = len(self.rows)
        second, probability = np.empty(count, np.int32), np.empty(count, np.float32)
        step = max(1, _MOST_VALUES // self.q.shape[1])
        for start in range(0, count, step):
            part = slice(start, start + step)
            now = self.clusters.clusters[part]
            # A part of a split has no column of its own: the model speaks of the cluster that it was a part of.
            own = np.where(self.clusters.by_hand[part], now, self.raw[part])
            q = np.array(self.q[self.rows[part]], np.float32)
            second[part], probability[part] = second_best(q, self.clusters.merged, now, own)
        return second, probability

    def _label(self, ids: NDArray[np.int64], versions: NDArray[np.int64]) -> Repeated:
        """Labels of the present content: one that was given to another picture says nothing of this one."""
        labelled = self.labelled
        if not len(labelled.ids):
            return Repeated(np.full(len(ids), NONE), ())
        found = np.minimum(np.searchsorted(labelled.ids, ids), len(labelled.ids) - 1)
        valid = (labelled.ids[found] == ids) & (labelled.contents[found] == versions)
        return Repeated(np.where(valid, labelled.numbers[found], NONE), labelled.names)


def _texts(column: TextColumn, kind: pyarrow.DataType) -> pyarrow.Array:
    """As Arrow has them, without a copy; empty where there is none."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(column.content)]
    return pa.Array.from_buffers(kind, len(column.lengths), buffers)


def second_best(
    q: NDArray[np.float32], merged: Mapping[int, int], *own: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The most probable cluster of each row but its own, and its probability.

    Args:
        q: probabilities by output, (n, C); they are changed.
        merged: the number that stands for one that is gone; the probabilities of merged clusters add up.
        own: numbers that do not count for each row, (n,) each; those without an output mean nothing.

    Returns:
        `NONE` and a NaN where no other cluster is left.
    """
    count = q.shape[1]
    for gone, kept in merged.items():
        if gone < count:  # so is the number kept, which is smaller
            q[:, kept] += q[:, gone]
    q[:, [gone for gone in merged if gone < count]] = -1
    now = np.arange(count, dtype=np.int32)
    for gone, kept in merged.items():
        if gone < count:
            now[gone] = kept
    for numbers in own:
        here = np.flatnonzero((numbers >= 0) & (numbers < count))
        q[here, now[numbers[here]]] = -1
    second = q.argmax(axis=1).astype(np.int32)
    probability = q[np.arange(len(q)), second]
    nobody = probability < 0
    return np.where(nobody, np.int32(NONE), second), np.where(nobody, np.float32(np.nan), probability)
