"""Images that the user keeps although they are duplicates, stored with the dataset: they are not proposed again.

This is no annotation: it changes neither labels nor exclusions, and other pages do not show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.files import read_json_to_update, write_json, writer_lock

_FILE, _LOCK, _KIND, _VERSION = "kept-duplicates.json", "kept-duplicates.lock", "kept-duplicates", 1
_ADVICE = "Delete it: the groups of duplicates are then proposed again."
_LOCK_SECONDS = 5.0


class _KeptEntries(TypedDict):
    groups: list[list[int]]


def read_kept_duplicates(dataset: ImageDataset) -> set[frozenset[int]]:
    """Return the sets of image ids that the user keeps together; none if their file cannot be read."""
    try:
        return _read_to_update(dataset)
    except CrlcError:
        return set()


def set_kept_duplicates(dataset: ImageDataset, ids: Iterable[int], *, is_kept: bool) -> None:
    """Store that the user keeps these duplicates, or that this is open again.

    Raises:
        CrlcError: the file cannot be written, or cannot be read now: its content would be lost.
    """
    group = frozenset(ids)
    with writer_lock(dataset.folder / _LOCK, "kept duplicates", _LOCK_SECONDS):
        known = _read_to_update(dataset)
        if (group in known) == is_kept:
            return
        groups = known | {group} if is_kept else known - {group}
        content = {"kind": _KIND, "version": _VERSION, "groups": sorted(map(sorted, groups))}
        write_json(dataset.folder / _FILE, content)


def _read_to_update(dataset: ImageDataset) -> set[frozenset[int]]:
    content = read_json_to_update(dataset.folder / _FILE, _KIND, _VERSION, _ADVICE, _KeptEntries)
    return set() if content is None else {frozenset(ids) for ids in content["groups"]}
