"""Store of the labels, exclusions and cluster edits of one dataset, with undo and redo.

A dataset has one history. Undo and redo are rows of the log as well, so that the history survives a restart, and other
processes follow by reading new rows. Undo reverts the latest operation that is not undone, whichever process recorded
it. After a new operation, undone ones cannot be redone.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from crlc.annotations.label_set import LabelSet
from crlc.annotations.log import AnnotationLog, LogRow
from crlc.annotations.operations import (
    ClusterEdit,
    ClusterNames,
    Exclude,
    Include,
    Label,
    Operation,
    OperationGroup,
    Unlabel,
    from_record,
    get_run,
    normalize_ids,
    normalize_name,
    to_record,
)
from crlc.annotations.state import AnnotationState, Change
from crlc.arrays import ImageIds, IntArray
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError
from crlc.formatting import format_count, format_list

_UNDO, _REDO = "undo", "redo"
_UNDO_VALUES = 2_000_000  # stored in memory, so that undo need not replay the log
_IDS_IN_ERRORS = 5


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One operation in the history."""

    id: int
    time: str
    run: str | None
    """Run whose clusters the operation edits, or `None` for an operation on the dataset."""

    title: str
    undone: bool
    """True if the operation is undone and can be redone."""


class NotLatestError(CrlcError):
    """Raised when another operation was recorded after the one to undo."""


class AnnotationStore:
    """Annotations of one dataset. Safe for several threads, and for other processes that write at the same time."""

    def __init__(self, dataset: ImageDataset) -> None:
        """Store the dataset; nothing is read yet, and the first operation creates the file."""
        self._dataset = dataset
        self._log = AnnotationLog(dataset.folder, dataset.info)
        self._guard = threading.RLock()
        self._state = AnnotationState()
        self._copy: AnnotationState | None = None
        self._done: list[int] = []
        self._undone: list[int] = []
        # Overwritten values of the last operations in `_done`. For older operations, undo replays the log.
        self._changes: deque[Change] = deque()
        self._remembered = 0

    def close(self) -> None:
        """Close the file."""
        with self._guard:
            self._log.close()

    def __enter__(self) -> AnnotationStore:
        """Return the store as a context that closes the file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    # ---- reading

    def refresh(self) -> AnnotationState:
        """Return the current state, after reading the rows that any process has added since the last call.

        The returned state never changes. Two states with the same `last_row_id` are equal.
        """
        with self._guard:
            self._read_new_rows()
            if self._copy is None or self._copy.last_row_id != self._state.last_row_id:
                self._copy = self._state.copy()
            return self._copy

    def read_history(self, count: int = 50) -> list[HistoryEntry]:
        """Return the operations that can be redone and the last `count` that can be undone, newest first."""
        with self._guard:
            self._read_new_rows()
            undone = [_make_entry(row, undone=True) for row in self._log.read_titles(self._undone[-count:])]
            return undone + [_make_entry(row) for row in self._log.read_titles(self._done[: -count - 1 : -1])]

    def load_usable_labels(self) -> LabelSet:
        """Return the labels of images that exist, are not excluded, and have not changed since they were labelled."""
        state = self.refresh()
        labels = state.to_label_set()
        is_unchanged = self._dataset.read_content_versions(labels.ids) == labels.content_versions
        return labels.select(is_unchanged & ~state.is_excluded(labels.ids))

    def find_stale_labels(self) -> ImageIds:
        """Return the ids of images that have changed since they were labelled."""
        labels = self.refresh().to_label_set()
        current = self._dataset.read_content_versions(labels.ids)
        stale: ImageIds = labels.ids[(current != 0) & (current != labels.content_versions)]
        return stale

    # ---- operations on the dataset; each returns None when nothing changes

    def label(self, ids: Iterable[int], name: str) -> HistoryEntry | None:
        """Set the label of images, replacing any previous label.

        Args:
            ids: image ids.
            name: the label.

        Raises:
            UsageError: the name is not allowed.
            NotFoundError: the dataset has no readable image with one of the ids.
        """
        name, chosen = normalize_name(name, "label"), normalize_ids(ids)
        contents = self.require_images(chosen)

        def operation(state: AnnotationState) -> Label | None:
            if state.has_same_label(chosen, name, contents).all():
                return None
            return Label(tuple(chosen.tolist()), name, tuple(contents.tolist()))

        return self.record(operation)

    def unlabel(self, ids: Iterable[int]) -> HistoryEntry | None:
        """Remove the labels of images, including images that are no longer in the source."""
        chosen = normalize_ids(ids)

        def operation(state: AnnotationState) -> Unlabel | None:
            has_one = state.has_label(chosen)
            self.require_images(chosen[~has_one])
            return Unlabel(tuple(chosen[has_one].tolist())) if has_one.any() else None

        return self.record(operation)

    def rename_label(self, old: str, new: str) -> HistoryEntry | None:
        """Rename a label on every image that has it. If the new name is in use already, both labels are merged.

        Content versions do not change: a label that is out of date remains out of date.

        Raises:
            UsageError: the new name is not allowed.
        """
        name = normalize_name(new, "label")

        def operation(state: AnnotationState) -> OperationGroup | None:
            renamed = state.to_label_set().select_name(old)
            if name == old or not len(renamed):
                return None
            title = f"rename the label {old!r} of {format_count(len(renamed), 'image')} to {name!r}"
            label = Label(tuple(renamed.ids.tolist()), name, tuple(renamed.content_versions.tolist()))
            return OperationGroup((label,), title)

        return self.record(operation)

    def remove_label(self, name: str) -> HistoryEntry | None:
        """Remove a label from every image that has it."""

        def operation(state: AnnotationState) -> OperationGroup | None:
            removed = state.to_label_set().select_name(name)
            if not len(removed):
                return None
            title = f"remove the label {name!r} of {format_count(len(removed), 'image')}"
            return OperationGroup((Unlabel(tuple(removed.ids.tolist())),), title)

        return self.record(operation)

    def exclude(self, ids: Iterable[int]) -> HistoryEntry | None:
        """Exclude images from training and export."""
        chosen = normalize_ids(ids)
        self.require_images(chosen)

        def operation(state: AnnotationState) -> Exclude | None:
            new = chosen[~state.is_excluded(chosen)]
            return Exclude(tuple(new.tolist())) if len(new) else None

        return self.record(operation)

    def include(self, ids: Iterable[int]) -> HistoryEntry | None:
        """Include excluded images again."""
        chosen = normalize_ids(ids)

        def operation(state: AnnotationState) -> Include | None:
            out = state.is_excluded(chosen)
            self.require_images(chosen[~out])
            return Include(tuple(chosen[out].tolist())) if out.any() else None

        return self.record(operation)

    def require_images(self, ids: ImageIds) -> IntArray:
        """Return the content versions of images.

        Raises:
            NotFoundError: the dataset has no readable image with one of the ids.
        """
        contents = self._dataset.read_content_versions(ids) if len(ids) else ids
        if (contents == 0).any():
            unknown = ids[contents == 0]
            named = format_list([*map(str, unknown.tolist())], _IDS_IN_ERRORS)
            nouns = "image with id" if len(unknown) == 1 else "images with ids"
            raise NotFoundError(f"{self._dataset.name} has no readable {nouns} {named}. Nothing was changed.")
        return contents

    # ---- history

    def record(
        self,
        make: Callable[[AnnotationState], Operation | None],
        names: ClusterNames = MappingProxyType({}),
    ) -> HistoryEntry | None:
        """Create an operation from the newest state and write it, while no other process can write.

        Args:
            make: returns the operation, returns `None` if nothing would change, or raises an error to refuse. It must
                not store the state, and may be called twice.
            names: names of the clusters, for the description of an edit.

        Returns:
            The new entry of the history, or `None` if nothing changes.
        """
        with self._guard:
            if not self._log.exists() and make(self._state) is None:
                return None
            with self._log.transaction():
                self._read_new_rows()
                operation = make(self._state)
                if operation is None:
                    return None
                kind, content = to_record(operation)
                title = operation.describe(names) if isinstance(operation, ClusterEdit) else operation.title
                row = self._log.append(kind, get_run(operation), title, content)
            self._apply(row.id, operation)
            return _make_entry(row)

    def undo(self, *, run: str | None = None, only: int | None = None) -> HistoryEntry:
        """Undo the latest operation that is not undone.

        Args:
            run: refuse unless the operation edits the clusters of this run.
            only: refuse unless the operation is the entry with this id.

        Raises:
            NotLatestError: the operation is not `only`.
            CrlcError: there is nothing to undo, or the operation is refused.
        """
        return self._step(_UNDO, run, only)

    def redo(self, *, run: str | None = None) -> HistoryEntry:
        """Redo the operation that was undone last.

        Args:
            run: refuse unless the operation edits the clusters of this run.

        Raises:
            CrlcError: there is nothing to redo, or the operation is refused.
        """
        return self._step(_REDO, run)

    # ---- implementation

    def _step(self, kind: str, run: str | None, only: int | None = None) -> HistoryEntry:
        with self._guard:
            if not self._log.exists():
                raise CrlcError(f"There is nothing to {kind} in {self._dataset.name}.")
            with self._log.transaction():
                self._read_new_rows()
                stack = self._done if kind == _UNDO else self._undone
                if not stack:
                    kind_of_error = CrlcError if only is None else NotLatestError
                    raise kind_of_error(f"There is nothing to {kind} in {self._dataset.name}.")
                (target,) = self._log.read_titles(stack[-1:])
                if only is not None and target.id != only:
                    raise NotLatestError(
                        f"Another operation on {self._dataset.name} was recorded since: {target.title}."
                    )
                if run is not None and target.run != run:
                    raise CrlcError(
                        f"The last operation to {kind} in {self._dataset.name} does not edit the clusters of {run}: "
                        f"{target.title}.",
                        advice=f"{kind.capitalize()} that operation of the dataset first.",
                    )
                row = self._log.append(kind, target.run, f"{kind}: {target.title}", {"operation": target.id})
            self._apply_row(row)
            return _make_entry(target, undone=kind == _UNDO)

    def _read_new_rows(self) -> None:
        for row in self._log.read_rows(self._state.last_row_id):
            self._apply_row(row)

    def _apply_row(self, row: LogRow) -> None:
        """Apply one row of the log to the state."""
        with self._explain_damage(row):
            if row.kind not in (_UNDO, _REDO):
                self._apply(row.id, from_record(row.kind, json.loads(row.content)))
                return
            target = json.loads(row.content)["operation"]
            stack = self._done if row.kind == _UNDO else self._undone
            if not stack or stack[-1] != target:
                raise ValueError(f"operation {target} is not the one to {row.kind}")
            if row.kind == _UNDO:
                self._undone.append(self._done.pop())
                self._revert_last()
            else:
                self._redo(self._log.read_row(self._undone[-1]))
            self._state.last_row_id = row.id

    @contextmanager
    def _explain_damage(self, row: LogRow) -> Iterator[None]:
        """Convert the errors of a row that cannot be read or applied to `DamagedError`."""
        try:
            yield
        except CrlcError:
            raise
        # RecursionError: nested too deeply; MemoryError: the id of an image is too large.
        except (
            ValueError,
            TypeError,
            AttributeError,
            LookupError,
            ArithmeticError,
            RecursionError,
            MemoryError,
        ) as error:
            raise self._log.make_damaged_error(row, error) from None

    def _apply(self, row_id: int, operation: Operation) -> None:
        self._remember(self._state.apply(operation))
        self._done.append(row_id)
        self._undone.clear()
        self._state.last_row_id = row_id

    def _redo(self, row: LogRow) -> None:
        self._remember(self._state.apply(from_record(row.kind, json.loads(row.content))))
        self._done.append(self._undone.pop())

    def _remember(self, change: Change) -> None:
        self._changes.append(change)
        self._remembered += change.size
        while self._remembered > _UNDO_VALUES and len(self._changes) > 1:
            self._remembered -= self._changes.popleft().size

    def _revert_last(self) -> None:
        if self._changes:
            change = self._changes.pop()
            self._remembered -= change.size
            self._state.revert(change)
            return
        self._state = AnnotationState()
        done = set(self._done)
        for row in self._log.read_rows(0, self._done[-1] if self._done else 0):
            if row.id in done:
                self._remember(self._state.apply(from_record(row.kind, json.loads(row.content))))


def _make_entry(row: LogRow, *, undone: bool = False) -> HistoryEntry:
    return HistoryEntry(row.id, row.time, row.run, row.title, undone)


def read_annotations(dataset: ImageDataset) -> AnnotationState:
    """Return the current labels, exclusions and edits of a dataset."""
    with AnnotationStore(dataset) as annotations:
        return annotations.refresh()


def read_excluded_ids(dataset: ImageDataset) -> ImageIds:
    """Return the ids of the images of a dataset that the user excluded."""
    return read_annotations(dataset).get_excluded_ids()
