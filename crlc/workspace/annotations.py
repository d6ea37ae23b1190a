"""Labels, exclusions and cluster edits of one data set: done, undone, redone, and the same in every window.

There is one history for a data set. Undoing and redoing are rows of the log too, so that it survives a restart
and other windows follow by reading what is new. Undo takes back the latest operation that is not undone, whoever
did it; a new operation makes what was undone impossible to redo.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError, UsageError
from crlc.workspace.annotation_log import AnnotationLog, LogRow
from crlc.workspace.curation import Change, Curation, LabelledImages
from crlc.workspace.operations import (
    Exclude,
    Include,
    Label,
    Operation,
    Unlabel,
    check_name,
    from_record,
    run_of,
    to_record,
)

_UNDO, _REDO = "undo", "redo"
_REMEMBERED_VALUES = 2_000_000
_NAMED_IN_ERRORS = 5
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entry:
    """An operation in the history."""

    id: int
    time: str
    run: str | None
    """The run whose clusters it is about; none when it is about the data set."""

    title: str
    undone: bool
    """Whether it can be redone; else it can be undone."""


class NotLatestError(CrlcError):
    """An operation is to be undone after which another one was done."""


class Annotations:
    """What people said about a data set. May be shared by threads; other processes may write at the same time."""

    def __init__(self, dataset: ImageDataset) -> None:
        """Take a data set; nothing is read yet, and nothing is written before the first operation."""
        self._dataset = dataset
        self._log = AnnotationLog(dataset.folder, dataset.info)
        self._guard = threading.RLock()
        self._state = Curation()
        self._copy: Curation | None = None
        self._done: list[int] = []
        self._undone: list[int] = []
        # What takes back the last operations of `_done`; when it is used up, the state is built anew.
        self._changes: deque[Change] = deque()
        self._remembered = 0

    def close(self) -> None:
        """Let go of the file."""
        with self._guard:
            self._log.close()

    def __enter__(self) -> Annotations:
        """Use as a context that closes the file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    # ---- reading

    def refresh(self) -> Curation:
        """The present state; reads only what was added since the last time, by this window or another.

        The state returned is never changed afterwards; its `operation` tells states apart.
        """
        with self._guard:
            self._catch_up()
            if self._copy is None or self._copy.operation != self._state.operation:
                self._copy = self._state.copy()
            return self._copy

    def history(self, count: int = 50) -> list[Entry]:
        """The operations that can be redone and the last ones that can be undone, newest first."""
        with self._guard:
            self._catch_up()
            undone = [_entry(row, undone=True) for row in self._log.titles(self._undone[-count:])]
            return undone + [_entry(row) for row in self._log.titles(self._done[: -count - 1 : -1])]

    def usable_labels(self) -> LabelledImages:
        """The labels to learn from: of images that are there, not excluded, and still show what was labelled."""
        curation = self.refresh()
        labelled = curation.labelled()
        unchanged = self._dataset.content_versions(labelled.ids) == labelled.contents
        return labelled.only(unchanged & ~curation.is_excluded(labelled.ids))

    def stale_labels(self) -> Ids:
        """Images whose content is another one since they were labelled."""
        labelled = self.refresh().labelled()
        now = self._dataset.content_versions(labelled.ids)
        stale: Ids = labelled.ids[(now != 0) & (now != labelled.contents)]
        return stale

    # ---- the data set's own operations; each returns none when there was nothing to change

    def label(self, ids: Iterable[int], name: str) -> Entry | None:
        """Give images a label, in place of any they had.

        Raises:
            UsageError: the name cannot be one.
            NotFoundError: some are no readable images of the data set.
        """
        name, chosen = check_name(name, "label"), unique_ids(ids)
        contents = self.require_images(chosen)

        def operation(state: Curation) -> Label | None:
            if state.is_labelled_so(chosen, name, contents).all():
                return None
            return Label(tuple(chosen.tolist()), name, tuple(contents.tolist()))

        return self.record(operation)

    def unlabel(self, ids: Iterable[int]) -> Entry | None:
        """Take the labels of images away, also of those that are not in the source any more."""
        chosen = unique_ids(ids)

        def operation(state: Curation) -> Unlabel | None:
            has_one = state.has_label(chosen)
            self.require_images(chosen[~has_one])
            return Unlabel(tuple(chosen[has_one].tolist())) if has_one.any() else None

        return self.record(operation)

    def exclude(self, ids: Iterable[int]) -> Entry | None:
        """Leave images out of what is learned and exported."""
        chosen = unique_ids(ids)
        self.require_images(chosen)

        def operation(state: Curation) -> Exclude | None:
            new = chosen[~state.is_excluded(chosen)]
            return Exclude(tuple(new.tolist())) if len(new) else None

        return self.record(operation)

    def include(self, ids: Iterable[int]) -> Entry | None:
        """Take excluded images in again."""
        chosen = unique_ids(ids)

        def operation(state: Curation) -> Include | None:
            out = state.is_excluded(chosen)
            self.require_images(chosen[~out])
            return Include(tuple(chosen[out].tolist())) if out.any() else None

        return self.record(operation)

    def require_images(self, ids: Ids) -> Ids:
        """The content versions of images.

        Raises:
            NotFoundError: some are no readable images of the data set.
        """
        contents = self._dataset.content_versions(ids) if len(ids) else ids
        if (contents == 0).any():
            unknown = ids[contents == 0]
            more = f" and {len(unknown) - _NAMED_IN_ERRORS:,} more" if len(unknown) > _NAMED_IN_ERRORS else ""
            named = ", ".join(map(str, unknown[:_NAMED_IN_ERRORS].tolist()))
            raise NotFoundError(
                f"{self._dataset.name} has no readable image with id {named}{more}. Nothing was changed."
            )
        return contents

    # ---- any operation

    def record(self, make: Callable[[Curation], Operation | None]) -> Entry | None:
        """Write an operation that is made, or refused, in view of the newest state; no one else writes meanwhile.

        Args:
            make: gives the operation; or none, when nothing would change; or raises. It must not keep the state.
        """
        with self._guard:
            if not self._log.exists() and make(self._state) is None:
                return None
            with self._log.writing():
                self._catch_up()
                operation = make(self._state)
                if operation is None:
                    return None
                kind, content = to_record(operation)
                row = self._log.append(kind, run_of(operation), operation.title, content)
            self._do(row.id, operation)
            return _entry(row)

    def undo(self, *, run: str | None = None, only: int | None = None) -> Entry:
        """Take back the latest operation that is not undone.

        Args:
            run: refuse when it is about anything else than the clusters of this run.
            only: refuse when it is another entry than the one with this id.

        Raises:
            NotLatestError: it is another one than `only`.
            CrlcError: there is none, or it is refused.
        """
        return self._step(_UNDO, run, only)

    def redo(self, *, run: str | None = None) -> Entry:
        """Do again what was undone last.

        Raises:
            CrlcError: there is nothing, or it is refused; see `undo`.
        """
        return self._step(_REDO, run)

    # ---- inside

    def _step(self, kind: str, run: str | None, only: int | None = None) -> Entry:
        with self._guard:
            if not self._log.exists():
                raise CrlcError(f"There is nothing to {kind} in {self._dataset.name}.")
            with self._log.writing():
                self._catch_up()
                stack = self._done if kind == _UNDO else self._undone
                if not stack:
                    kind_of_error = CrlcError if only is None else NotLatestError
                    raise kind_of_error(f"There is nothing to {kind} in {self._dataset.name}.")
                (target,) = self._log.titles(stack[-1:])
                if only is not None and target.id != only:
                    raise NotLatestError(f"Something else was done to {self._dataset.name} since: {target.title}.")
                if run is not None and target.run != run:
                    raise CrlcError(
                        f"The last operation to {kind} in {self._dataset.name} is not about the clusters of {run}: "
                        f"{target.title}. {kind.capitalize()} it first, with: crlc label {self._dataset.name} {kind}"
                    )
                row = self._log.append(kind, target.run, f"{kind}: {target.title}", {"operation": target.id})
            self._take(row)
            return _entry(target, undone=kind == _UNDO)

    def _catch_up(self) -> None:
        for row in self._log.rows_after(self._state.operation):
            self._take(row)

    def _take(self, row: LogRow) -> None:
        """Follow one row of the log."""
        try:
            content = json.loads(row.content)
            if row.kind not in (_UNDO, _REDO):
                self._do(row.id, from_record(row.kind, content))
                return
            stack = self._done if row.kind == _UNDO else self._undone
            if not stack or stack[-1] != content["operation"]:
                raise ValueError(f"operation {content['operation']} cannot be {row.kind}ne here")
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise self._log.damaged(row, error) from None
        if row.kind == _UNDO:
            self._undone.append(self._done.pop())
            self._take_back()
        else:
            self._redo(self._log.row(self._undone[-1]))
        self._state.operation = row.id

    def _do(self, row_id: int, operation: Operation) -> None:
        self._remember(self._state.apply(operation))
        self._done.append(row_id)
        self._undone.clear()
        self._state.operation = row_id

    def _redo(self, row: LogRow) -> None:
        self._remember(self._state.apply(from_record(row.kind, json.loads(row.content))))
        self._done.append(self._undone.pop())

    def _remember(self, change: Change) -> None:
        self._changes.append(change)
        self._remembered += change.size
        while self._remembered > _REMEMBERED_VALUES and len(self._changes) > 1:
            self._remembered -= self._changes.popleft().size

    def _take_back(self) -> None:
        if self._changes:
            change = self._changes.pop()
            self._remembered -= change.size
            self._state.revert(change)
            return
        self._state = Curation()
        done = set(self._done)
        for row in self._log.rows_after(0, self._done[-1] if self._done else 0):
            if row.id in done:
                self._remember(self._state.apply(from_record(row.kind, json.loads(row.content))))


def unique_ids(ids: Iterable[int]) -> Ids:
    """Ids in ascending order, each once.

    Raises:
        UsageError: there are none, or they are not whole numbers.
    """
    given = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
    if not given.size:
        raise UsageError("No image was given. Name at least one.")
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise UsageError(f"Image ids are whole numbers; these are {given.dtype} of shape {given.shape}.")
    return np.unique(given.astype(np.int64))


def _entry(row: LogRow, *, undone: bool = False) -> Entry:
    return Entry(row.id, row.time, row.run, row.title, undone)


def excluded_images(dataset: ImageDataset) -> Ids:
    """Ids of the images that a person excluded."""
    with Annotations(dataset) as annotations:
        return annotations.refresh().excluded()
