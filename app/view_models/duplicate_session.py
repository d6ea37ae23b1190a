"""Decisions of the user about groups of duplicates: each is written once, and can be undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from app.view_models.numbered_edits import EditSession
from crlc.annotations.kept_duplicates import set_kept_duplicates
from crlc.annotations.state import AnnotationState
from crlc.annotations.store import AnnotationStore, NotLatestError
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.paths import to_printable
from crlc.services.duplicate_review import DuplicateSet, exclude_redundant_images, find_undecided, keep_images

_MAX_UNDOABLE_DECISIONS = 1000
_HASH_CHARACTERS = 12


class DuplicateEdit(NamedTuple):
    """A decision about one group: the images to keep; or undo of the last decision."""

    number: int
    group: str
    keep: tuple[int, ...] = ()
    is_undo: bool = False


class _PreviousState(NamedTuple):
    """State of a group before a decision; without a group, the decision was about all undecided groups."""

    group: str
    kept: tuple[int, ...]
    """Images that were not excluded."""

    was_decided: bool
    kept_now: tuple[int, ...]
    entry: int | None
    """Id of the history entry that the decision wrote."""


def parse_duplicate_edit(value: Any) -> DuplicateEdit:
    """Return a decision from the browser.

    Raises:
        KeyError, TypeError or ValueError: the value is not such a decision.
    """
    if value.get("undo"):
        return DuplicateEdit(int(value["n"]), "", is_undo=True)
    return DuplicateEdit(int(value["n"]), str(value["group"]), tuple(int(image) for image in value["keep"]))


@dataclass
class DuplicateSession:
    """Decisions of one browser session about one dataset, and their outcome."""

    dataset: str = ""
    edits: EditSession = field(default_factory=EditSession)
    saved_at: str | None = None
    """Time at which the last decision was written to disk, as HH:MM:SS."""

    message: str | None = None
    """Reason why the last decision was not written, or what was undone."""

    undone_group: str | None = None
    """Group of the decision that was undone last: the page goes back to it."""

    _previous_states: list[_PreviousState] = field(default_factory=list)

    def apply(
        self, value: Any, dataset: ImageDataset, annotations: AnnotationStore, sets: Sequence[DuplicateSet]
    ) -> None:
        """Write the decisions in a value from the browser that were not written before.

        Args:
            value: the value; one that cannot be parsed has no decisions.
            dataset: dataset of the images.
            annotations: its annotations.
            sets: the groups that the page shows.
        """
        by_key = {one.key: one for one in sets}
        for edit in self.edits.iterate_new_edits(value, parse_duplicate_edit):
            self.message = self.undone_group = None
            try:
                if edit.is_undo:
                    self.undo(dataset, annotations, by_key)
                else:
                    self._decide(edit, dataset, annotations, by_key)
                self.saved_at = f"{datetime.now():%H:%M:%S}"
            except (CrlcError, OSError) as error:
                self.message = str(error)

    def exclude_all(self, dataset: ImageDataset, annotations: AnnotationStore, sets: Sequence[DuplicateSet]) -> None:
        """Exclude all but the proposed image of every undecided group."""
        self.message = self.undone_group = None
        try:
            entry = exclude_redundant_images(dataset, annotations, sets)
        except (CrlcError, OSError) as error:
            self.message = str(error)
            return
        if entry is not None:
            self._remember(_PreviousState("", (), False, (), entry.id))
            self.saved_at = f"{datetime.now():%H:%M:%S}"

    def undo(self, dataset: ImageDataset, annotations: AnnotationStore, by_key: Mapping[str, DuplicateSet]) -> None:
        """Undo the last decision of this session; later changes of other images stay.

        Raises:
            CrlcError: there is none, or other changes depend on it.
        """
        if not self._previous_states:
            raise CrlcError("There is no decision to undo on this page.")
        before = self._previous_states.pop()
        group = by_key.get(before.group)
        if before.entry is not None:
            try:
                annotations.undo(only=before.entry)
            except NotLatestError:
                if group is None:
                    raise
                keep_images(dataset, annotations, group.ids, before.kept or group.ids)
        # keep_images stores kept images, also those that it only restored.
        for kept in (before.kept_now, before.kept):
            if len(kept) > 1:
                set_kept_duplicates(dataset, kept, is_kept=before.was_decided and kept == before.kept)
        self.undone_group = before.group or None

    def _decide(
        self,
        edit: DuplicateEdit,
        dataset: ImageDataset,
        annotations: AnnotationStore,
        by_key: Mapping[str, DuplicateSet],
    ) -> None:
        group = by_key.get(edit.group)
        if group is None:
            raise CrlcError("The images of this group have changed.", advice="Reload the page.")
        state = annotations.refresh()
        kept = tuple(image for image in sorted(group.ids) if not state.is_excluded([image])[0])
        was_decided = not find_undecided(dataset, state, [group])
        entry = keep_images(dataset, annotations, group.ids, edit.keep)
        now = tuple(sorted(set(edit.keep)))
        self._remember(_PreviousState(edit.group, kept, was_decided, now, None if entry is None else entry.id))

    def _remember(self, previous: _PreviousState) -> None:
        self._previous_states.append(previous)
        del self._previous_states[:-_MAX_UNDOABLE_DECISIONS]


def build_desk_data(
    dataset: ImageDataset, annotations: AnnotationState, sets: Sequence[DuplicateSet], session: DuplicateSession
) -> dict[str, Any]:
    """Return the data of the component that shows the groups; paths are safe text."""
    ids = [image.id for one in sets for image in one.images]
    excluded = [number for number, is_out in zip(ids, annotations.is_excluded(ids), strict=True) if is_out]
    return {
        "dataset": dataset.name,
        "groups": [
            {
                "key": one.key,
                "exact": one.is_exact,
                "score": round(one.score, 3),
                "images": [
                    (
                        image.id,
                        to_printable(image.path),
                        image.width,
                        image.height,
                        image.bytes,
                        image.sharpness,
                        image.hash[:_HASH_CHARACTERS],
                    )
                    for image in one.images
                ],
            }
            for one in sets
        ],
        "excluded": excluded,
        "undecided": [one.key for one in find_undecided(dataset, annotations, sets)],
        "window": session.edits.window,
        "answered": session.edits.answered,
        "saved": session.saved_at,
        "message": session.message,
        "undone": session.undone_group,
    }
