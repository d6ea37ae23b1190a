"""In-memory state after a sequence of operations: labels, exclusions and cluster edits.

Values are stored in arrays with one element per image id (ids are dense), so that operations on 100,000 images, copies
and queries for many images are fast. `apply` returns the change that `revert` needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crlc.annotations.label_set import LabelSet
from crlc.annotations.operations import (
    Exclude,
    Include,
    Label,
    MergeClusters,
    MoveImages,
    NameCluster,
    Operation,
    OperationGroup,
    SingleOperation,
    SplitCluster,
    Unlabel,
)
from crlc.arrays import ImageIds

_NONE = -1


class ValuesById:
    """Array with one value per image id, which grows with the highest id written so far."""

    def __init__(self, empty: int | bool, kind: type[np.generic], values: NDArray[Any] | None = None) -> None:
        """Create an array with the value `empty` everywhere.

        Args:
            empty: value of images that were not written.
            kind: NumPy type of the values.
            values: initial values.
        """
        self._empty = empty
        self._values: NDArray[Any] = np.empty(0, kind) if values is None else values

    def get(self, ids: ArrayLike) -> NDArray[Any]:
        """Return the values of images."""
        wanted = np.asarray(ids, dtype=np.int64)
        if not len(self._values):
            return np.full(wanted.shape, self._empty, self._values.dtype)
        beyond = wanted >= len(self._values)
        return np.where(beyond, self._empty, self._values[np.where(beyond, 0, wanted)])

    def set(self, ids: ImageIds, values: ArrayLike) -> NDArray[Any]:
        """Set the values of images and return the previous values.

        Args:
            ids: image ids, (N,).
            values: one value for each image, (N,), or one for all.
        """
        try:
            before = self._values[ids]
        except IndexError:
            longer = np.full(max(int(ids.max()) + 1, 2 * len(self._values)), self._empty, self._values.dtype)
            longer[: len(self._values)] = self._values
            self._values = longer
            before = longer[ids]
        self._values[ids] = values
        return before

    def find_ids(self) -> ImageIds:
        """Return the ids of the images that have a value, ascending."""
        return np.flatnonzero(self._values != self._empty)

    def copy(self) -> ValuesById:
        """Return an independent copy."""
        return ValuesById(self._empty, self._values.dtype.type, self._values.copy())


def _create_numbers() -> ValuesById:
    return ValuesById(_NONE, np.int32)


def _create_flags() -> ValuesById:
    return ValuesById(False, np.bool_)


@dataclass(frozen=True)
class ClusterEdits:
    """Cluster edits of one result.

    Cluster numbers are never reused: a merge keeps the smallest number, parts of a split get numbers after the largest.
    """

    merged: Mapping[int, int] = field(default_factory=dict)
    """Number of each cluster that was merged into another, with the number of that other cluster."""

    names: Mapping[int, str] = field(default_factory=dict)
    """Names by cluster number."""

    largest: int = _NONE
    """Highest number that a split has assigned, or -1."""

    assigned: ValuesById = field(default_factory=_create_numbers)
    """Cluster that a split or the user assigned to each image; -1 for the cluster of the result."""

    is_moved: ValuesById = field(default_factory=_create_flags)
    """True for images that the user moved."""

    def list_clusters(self, count: int) -> list[int]:
        """Return the numbers of the current clusters of a result with `count` clusters."""
        return [number for number in range(max(count, self.largest + 1)) if number not in self.merged]

    def copy(self) -> ClusterEdits:
        """Return an independent copy."""
        return replace(self, assigned=self.assigned.copy(), is_moved=self.is_moved.copy())


def apply_cluster_edits(ids: ImageIds, clusters: NDArray[np.integer[Any]], edits: ClusterEdits) -> NDArray[np.int32]:
    """Return the clusters of images after all edits, (N,).

    Args:
        ids: image ids, (N,).
        clusters: their clusters in the result, (N,).
        edits: edits of the result.
    """
    own = edits.assigned.get(ids)
    numbers = np.where(own >= 0, own, clusters).astype(np.int32)
    highest = max([*edits.merged, int(numbers.max(initial=0))])
    now = np.arange(highest + 1, dtype=np.int32)
    for gone, kept in edits.merged.items():
        now[gone] = kept
    return now[numbers]


@dataclass(frozen=True)
class Change:
    """Values that an operation overwrote, as `AnnotationState.revert` needs them."""

    values: tuple[tuple[ValuesById, ImageIds, NDArray[Any]], ...] = ()
    edits: tuple[tuple[tuple[str, str], ClusterEdits | None], ...] = ()

    @property
    def size(self) -> int:
        """Number of stored values."""
        return 1 + sum(len(ids) for _, ids, _ in self.values)


class AnnotationState:
    """Labels, exclusions and cluster edits of a dataset."""

    def __init__(self) -> None:
        """Create a state without labels, exclusions and edits."""
        self.last_row_id = 0
        """Id of the last log row that was applied. States with the same id are equal."""

        self._names: list[str] = []
        self._number_of: dict[str, int] = {}
        self._labels = _create_numbers()
        self._contents = ValuesById(0, np.int32)
        self._excluded = _create_flags()
        self._edits: dict[tuple[str, str], ClusterEdits] = {}

    # ---- queries

    @property
    def all_label_names(self) -> tuple[str, ...]:
        """Every label that was ever used, in the order of first use. Later operations only append to it."""
        return tuple(self._names)

    def get_label_codes(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Return the labels of images as indices into `all_label_names`, -1 for none."""
        return self._labels.get(ids).astype(np.int64)

    def get_label(self, image_id: int) -> str | None:
        """Return the label of one image, or `None`."""
        number = int(self._labels.get(image_id))
        return None if number == _NONE else self._names[number]

    def get_labels(self, ids: ArrayLike) -> list[str | None]:
        """Return the label of each image, or `None` where it has none."""
        texts: list[str | None] = [*self._names, None]  # code -1 is the last element
        return [texts[number] for number in self._labels.get(ids).tolist()]

    def to_label_set(self) -> LabelSet:
        """Return the labels of all images that have one."""
        ids = self._labels.find_ids()
        order = sorted(range(len(self._names)), key=self._names.__getitem__)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        names = tuple(self._names[number] for number in order)
        codes = rank[self._labels.get(ids).astype(np.int64)]
        all_names = LabelSet(ids, codes, names, self._contents.get(ids).astype(np.int64))
        return all_names.select(np.ones(len(ids), np.bool_))  # drops names that no image has any more

    def has_label(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each image has a label."""
        return self._labels.get(ids) != _NONE  # type: ignore[no-any-return]

    def has_same_label(self, ids: ArrayLike, name: str, contents: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each image has this label for this content version.

        Args:
            ids: image ids, (N,).
            name: the label.
            contents: content version of each image, (N,).
        """
        number = self._number_of.get(name, _NONE - 1)
        same: NDArray[np.bool_] = (self._labels.get(ids) == number) & (self._contents.get(ids) == np.asarray(contents))
        return same

    def is_excluded(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each image is excluded."""
        return self._excluded.get(ids)

    def get_excluded_ids(self) -> ImageIds:
        """Return the ids of all excluded images, ascending."""
        return self._excluded.find_ids()

    def get_edits(self, run: str, result: str) -> ClusterEdits:
        """Return the edits of the clusters of one result of a run.

        Args:
            run: id of the run.
            result: fingerprint of the result.
        """
        return self._edits.get((run, result)) or ClusterEdits()

    def find_edited_results(self, run: str) -> set[str]:
        """Return the fingerprints of the edited results of a run."""
        return {result for name, result in self._edits if name == run}

    def copy(self) -> AnnotationState:
        """Return a copy that later operations do not change."""
        other = AnnotationState()
        other.last_row_id = self.last_row_id
        other._names, other._number_of = list(self._names), dict(self._number_of)
        other._labels, other._contents = self._labels.copy(), self._contents.copy()
        other._excluded = self._excluded.copy()
        other._edits = {key: edits.copy() for key, edits in self._edits.items()}
        return other

    # ---- changes

    def apply(self, operation: Operation) -> Change:
        """Apply an operation and return the change that `revert` needs."""
        members = operation.operations if isinstance(operation, OperationGroup) else (operation,)
        changes = [self._apply(member) for member in members]
        if len(changes) == 1:
            return changes[0]
        return Change(
            tuple(value for change in changes for value in change.values),
            tuple(edit for change in changes for edit in change.edits),
        )

    def revert(self, change: Change) -> None:
        """Revert the operation that was applied last."""
        for values, ids, before in reversed(change.values):
            values.set(ids, before)
        for key, edits in reversed(change.edits):
            if edits is None:
                del self._edits[key]
            else:
                self._edits[key] = edits

    def _apply(self, operation: SingleOperation) -> Change:
        match operation:
            case Label(ids, name, contents):
                images = _to_array(ids)
                labels = self._labels.set(images, self._number(name))
                return Change(
                    ((self._labels, images, labels), (self._contents, images, self._contents.set(images, contents)))
                )
            case Unlabel(ids):
                images = _to_array(ids)
                return Change(((self._labels, images, self._labels.set(images, _NONE)),))
            case Exclude(ids) | Include(ids):
                images = _to_array(ids)
                before = self._excluded.set(images, isinstance(operation, Exclude))
                return Change(((self._excluded, images, before),))
            case NameCluster() | MergeClusters() | SplitCluster() | MoveImages():
                key = (operation.run, operation.result)
                before_edits = self._edits.get(key)
                self._edits[key], values = _edit(before_edits or ClusterEdits(), operation)
                return Change(values, ((key, before_edits),))

    def _number(self, name: str) -> int:
        if name not in self._number_of:
            self._number_of[name] = len(self._names)
            self._names.append(name)
        return self._number_of[name]


_Overwritten = tuple[tuple[ValuesById, ImageIds, NDArray[Any]], ...]


def _edit(
    edits: ClusterEdits, operation: NameCluster | MergeClusters | SplitCluster | MoveImages
) -> tuple[ClusterEdits, _Overwritten]:
    """Return the edits with one more operation, and the previous values of the images that it changed."""
    match operation:
        case NameCluster(cluster=cluster, name=name):
            others = {number: text for number, text in edits.names.items() if number != cluster}
            return replace(edits, names=others if name is None else {**others, cluster: name}), ()
        case MergeClusters(clusters=clusters):
            return _merge(edits, clusters), ()
        case SplitCluster(parts=parts, first_new=first_new):
            ids = _to_array(tuple(number for part in parts[1:] for number in part))
            numbers = np.repeat(np.arange(first_new, first_new + len(parts) - 1), [len(part) for part in parts[1:]])
            overwritten = ((edits.assigned, ids, edits.assigned.set(ids, numbers)),)
            return replace(edits, largest=first_new + len(parts) - 2), overwritten
        case MoveImages(ids=moved, cluster=cluster):
            ids = _to_array(moved)
            return edits, (
                (edits.assigned, ids, edits.assigned.set(ids, cluster)),
                (edits.is_moved, ids, edits.is_moved.set(ids, True)),
            )


def _merge(edits: ClusterEdits, clusters: tuple[int, ...]) -> ClusterEdits:
    kept = min(clusters)
    merged = {gone: kept if now in clusters else now for gone, now in edits.merged.items()}
    merged |= {number: kept for number in clusters if number != kept}
    names = {number: name for number, name in edits.names.items() if number not in clusters}
    # The merged cluster gets the name of its lowest-numbered part that has one.
    name = next((edits.names[number] for number in sorted(clusters) if number in edits.names), None)
    return replace(edits, merged=merged, names=names if name is None else {**names, kept: name})


def _to_array(ids: tuple[int, ...]) -> ImageIds:
    if ids and min(ids) < 0:
        raise ValueError(f"{min(ids)} is not an image id")
    return np.array(ids, dtype=np.int64)
