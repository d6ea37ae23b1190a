"""What a sequence of operations leads to: labels, exclusions and edited clusters. No disk here.

Values stand in arrays with one place per image id (ids are dense), so that an operation on 100,000 images, a
copy, and a question about many images cost next to nothing. `apply` returns what `revert` needs to take it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crlc.workspace.operations import (
    Exclude,
    Group,
    Include,
    Label,
    MergeClusters,
    MoveImages,
    NameCluster,
    Operation,
    Single,
    SplitCluster,
    Unlabel,
)

_NONE = -1
Numbers = NDArray[np.int64]


class ValuesById:
    """One value per image id; as long as the highest id written so far needs."""

    def __init__(self, empty: int | bool, kind: type[np.generic], values: NDArray[Any] | None = None) -> None:
        """Begin with the value `empty` everywhere."""
        self._empty = empty
        self._values: NDArray[Any] = np.empty(0, kind) if values is None else values

    def at(self, ids: ArrayLike) -> NDArray[Any]:
        """The values of some images."""
        wanted = np.asarray(ids, dtype=np.int64)
        if not len(self._values):
            return np.full(wanted.shape, self._empty, self._values.dtype)
        beyond = wanted >= len(self._values)
        return np.where(beyond, self._empty, self._values[np.where(beyond, 0, wanted)])

    def put(self, ids: Numbers, values: ArrayLike) -> NDArray[Any]:
        """Write values; returns those that stood there."""
        try:
            before = self._values[ids]
        except IndexError:
            longer = np.full(max(int(ids.max()) + 1, 2 * len(self._values)), self._empty, self._values.dtype)
            longer[: len(self._values)] = self._values
            self._values = longer
            before = longer[ids]
        self._values[ids] = values
        return before

    def where_not_empty(self) -> Numbers:
        """The images that have a value, ascending."""
        return np.flatnonzero(self._values != self._empty)

    def copy(self) -> ValuesById:
        """The same values, independent of what is written later."""
        return ValuesById(self._empty, self._values.dtype.type, self._values.copy())


def _no_numbers() -> ValuesById:
    return ValuesById(_NONE, np.int32)


def _nothing_true() -> ValuesById:
    return ValuesById(False, np.bool_)


@dataclass(frozen=True)
class ClusterEdits:
    """How a person changed the clusters of one result.

    A cluster's number is never given twice: a merge keeps the smallest, parts of a split come after the largest.
    """

    merged: Mapping[int, int] = field(default_factory=dict)
    """The number that now stands for one that is gone."""

    names: Mapping[int, str] = field(default_factory=dict)
    """By the numbers that are left."""

    largest: int = _NONE
    """The highest number that a split has given."""

    own: ValuesById = field(default_factory=_no_numbers)
    """The number of images that a split or a person took from the cluster of the result; else -1."""

    by_hand: ValuesById = field(default_factory=_nothing_true)
    """Whether a person moved the image."""

    def numbers(self, count: int) -> list[int]:
        """The clusters there are now, when the result had `count` of them."""
        return [number for number in range(max(count, self.largest + 1)) if number not in self.merged]

    def copy(self) -> ClusterEdits:
        """The same edits, independent of what is done later."""
        return replace(self, own=self.own.copy(), by_hand=self.by_hand.copy())


def edited_clusters(ids: Numbers, clusters: NDArray[np.integer[Any]], edits: ClusterEdits) -> NDArray[np.int32]:
    """The clusters of images after all edits.

    Args:
        ids: the images, (N,).
        clusters: what the result says of them, (N,).
        edits: what people changed.
    """
    own = edits.own.at(ids)
    numbers = np.where(own >= 0, own, clusters).astype(np.int32)
    highest = max([*edits.merged, int(numbers.max(initial=0))])
    now = np.arange(highest + 1, dtype=np.int32)
    for gone, kept in edits.merged.items():
        now[gone] = kept
    return now[numbers]


@dataclass(frozen=True)
class LabelledImages:
    """Images with their labels, by ascending id."""

    ids: Numbers
    numbers: Numbers
    """Index into `names`."""

    names: tuple[str, ...]
    """Those in use, in order of the alphabet."""

    contents: Numbers
    """The content version that each image had when it was labelled."""

    def only(self, keep: NDArray[np.bool_]) -> LabelledImages:
        """A part of them; names that no image has any more are left out."""
        used, numbers = np.unique(self.numbers[keep], return_inverse=True)
        names = tuple(self.names[number] for number in used.tolist())
        return LabelledImages(self.ids[keep], numbers.astype(np.int64), names, self.contents[keep])

    def counts(self) -> dict[str, int]:
        """How many images have each label."""
        return dict(zip(self.names, np.bincount(self.numbers, minlength=len(self.names)).tolist(), strict=True))


@dataclass(frozen=True)
class Change:
    """What an operation overwrote."""

    values: tuple[tuple[ValuesById, Numbers, NDArray[Any]], ...] = ()
    edits: tuple[tuple[tuple[str, str], ClusterEdits | None], ...] = ()

    @property
    def size(self) -> int:
        """How many values are kept for it."""
        return 1 + sum(len(ids) for _, ids, _ in self.values)


class Curation:
    """The state of a data set's labels, exclusions and cluster edits."""

    def __init__(self) -> None:
        """Begin with nothing labelled, excluded or edited."""
        self.operation = 0
        """The last row of the log that it contains: equal numbers, equal states."""

        self._names: list[str] = []
        self._number_of: dict[str, int] = {}
        self._labels = _no_numbers()
        self._contents = ValuesById(0, np.int32)
        self._excluded = _nothing_true()
        self._edits: dict[tuple[str, str], ClusterEdits] = {}

    # ---- questions

    @property
    def label_names(self) -> tuple[str, ...]:
        """Every label that was ever given, in the order of its first use, which later operations do not change."""
        return tuple(self._names)

    def label_numbers(self, ids: ArrayLike) -> NDArray[np.int64]:
        """The labels of some images by their place in `label_names`, -1 for none."""
        return self._labels.at(ids).astype(np.int64)

    def label(self, image_id: int) -> str | None:
        """The label of one image."""
        number = int(self._labels.at(image_id))
        return None if number == _NONE else self._names[number]

    def labels(self, ids: ArrayLike) -> list[str | None]:
        """The labels of some images, in their order."""
        texts: list[str | None] = [*self._names, None]  # number -1 is the last one
        return [texts[number] for number in self._labels.at(ids).tolist()]

    def labelled(self) -> LabelledImages:
        """All images that have a label."""
        ids = self._labels.where_not_empty()
        numbers = self._labels.at(ids).astype(np.int64)
        order = sorted(range(len(self._names)), key=self._names.__getitem__)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        names = tuple(self._names[number] for number in order)
        everything = LabelledImages(ids, rank[numbers], names, self._contents.at(ids).astype(np.int64))
        return everything.only(np.ones(len(ids), np.bool_))

    def has_label(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether images have a label."""
        return self._labels.at(ids) != _NONE  # type: ignore[no-any-return]

    def is_labelled_so(self, ids: ArrayLike, name: str, contents: ArrayLike) -> NDArray[np.bool_]:
        """Whether images have just this label, given to just this content."""
        number = self._number_of.get(name, _NONE - 1)
        same: NDArray[np.bool_] = (self._labels.at(ids) == number) & (self._contents.at(ids) == np.asarray(contents))
        return same

    def is_excluded(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Whether images are excluded."""
        return self._excluded.at(ids)

    def excluded(self) -> Numbers:
        """All excluded images, ascending."""
        return self._excluded.where_not_empty()

    def edits(self, run: str, result: str) -> ClusterEdits:
        """What was changed in the clusters of one result of a run."""
        return self._edits.get((run, result)) or ClusterEdits()

    def edited_results(self, run: str) -> set[str]:
        """Fingerprints of the results of a run that were edited."""
        return {result for name, result in self._edits if name == run}

    def copy(self) -> Curation:
        """The same state, independent of operations applied later."""
        other = Curation()
        other.operation = self.operation
        other._names, other._number_of = list(self._names), dict(self._number_of)
        other._labels, other._contents = self._labels.copy(), self._contents.copy()
        other._excluded = self._excluded.copy()
        other._edits = {key: edits.copy() for key, edits in self._edits.items()}
        return other

    # ---- changes

    def apply(self, operation: Operation) -> Change:
        """Carry an operation out; returns what takes it back."""
        members = operation.operations if isinstance(operation, Group) else (operation,)
        changes = [self._apply(member) for member in members]
        if len(changes) == 1:
            return changes[0]
        return Change(
            tuple(value for change in changes for value in change.values),
            tuple(edit for change in changes for edit in change.edits),
        )

    def revert(self, change: Change) -> None:
        """Take back the operation that was applied last."""
        for values, ids, before in reversed(change.values):
            values.put(ids, before)
        for key, edits in reversed(change.edits):
            if edits is None:
                del self._edits[key]
            else:
                self._edits[key] = edits

    def _apply(self, operation: Single) -> Change:
        match operation:
            case Label(ids, name, contents):
                places = _places(ids)
                labels = self._labels.put(places, self._number(name))
                return Change(
                    ((self._labels, places, labels), (self._contents, places, self._contents.put(places, contents)))
                )
            case Unlabel(ids):
                places = _places(ids)
                return Change(((self._labels, places, self._labels.put(places, _NONE)),))
            case Exclude(ids) | Include(ids):
                places = _places(ids)
                before = self._excluded.put(places, isinstance(operation, Exclude))
                return Change(((self._excluded, places, before),))
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


_Overwritten = tuple[tuple[ValuesById, Numbers, NDArray[Any]], ...]


def _edit(
    edits: ClusterEdits, operation: NameCluster | MergeClusters | SplitCluster | MoveImages
) -> tuple[ClusterEdits, _Overwritten]:
    """The edits with one more, and the values of images that it overwrote."""
    match operation:
        case NameCluster(cluster=cluster, name=name):
            others = {number: text for number, text in edits.names.items() if number != cluster}
            return replace(edits, names=others if name is None else {**others, cluster: name}), ()
        case MergeClusters(clusters=clusters):
            return _merge(edits, clusters), ()
        case SplitCluster(parts=parts, first_new=first_new):
            ids = _places(tuple(number for part in parts[1:] for number in part))
            numbers = np.repeat(np.arange(first_new, first_new + len(parts) - 1), [len(part) for part in parts[1:]])
            overwritten = ((edits.own, ids, edits.own.put(ids, numbers)),)
            return replace(edits, largest=first_new + len(parts) - 2), overwritten
        case MoveImages(ids=moved, cluster=cluster):
            ids = _places(moved)
            return edits, (
                (edits.own, ids, edits.own.put(ids, cluster)),
                (edits.by_hand, ids, edits.by_hand.put(ids, True)),
            )


def _merge(edits: ClusterEdits, clusters: tuple[int, ...]) -> ClusterEdits:
    kept = min(clusters)
    merged = {gone: kept if now in clusters else now for gone, now in edits.merged.items()}
    merged |= {number: kept for number in clusters if number != kept}
    names = {number: name for number, name in edits.names.items() if number not in clusters}
    # Its own name, or else that of the smallest number that has one.
    name = next((edits.names[number] for number in sorted(clusters) if number in edits.names), None)
    return replace(edits, merged=merged, names=names if name is None else {**names, kept: name})


def _places(ids: tuple[int, ...]) -> Numbers:
    if ids and min(ids) < 0:
        raise ValueError(f"{min(ids)} is not the id of an image")
    return np.array(ids, dtype=np.int64)
