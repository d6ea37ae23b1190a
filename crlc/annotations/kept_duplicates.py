"""Images that the user keeps although they are duplicates, stored with the dataset: they are not proposed again.

This is no annotation: it changes neither labels nor exclusions, and other pages do not show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.files import read_json, write_json, writer_lock

_FILE, _LOCK, _KIND, _VERSION = "kept-duplicates.json", "kept-duplicates.lock", "kept-duplicates", 1
_ADVICE = "Delete it: the groups of duplicates are then proposed again."
_LOCK_SECONDS = 5.0


class _KeptEntries(TypedDict):
    groups: list[list[int]]


def read_kept_duplicates(dataset: ImageDataset) -> set[frozenset[int]]:
    """Return the sets of image ids that the user keeps together; none if their file is missing or damaged."""
    try:
        content = read_json(dataset.folder / _FILE, _KIND, _VERSION, _ADVICE, _KeptEntries)
    except CrlcError:
        return set()
    return {frozenset(ids) for ids in content["groups"]}


def set_kept_duplicates(dataset: ImageDataset, ids: Iterable[int], *, is_kept: bool) -> None:
    """Store that the user keeps these duplicates, or that this is open again.

    Raises:
        CrlcError: the file cannot be written.
    """
    group = frozenset(ids)
    with writer_lock(dataset.folder / _LOCK, "kept duplicates", _LOCK_SECONDS):
        known = read_kept_duplicates(dataset)
        if (group in known) == is_kept:
            return
        groups = known | {group} if is_kept else known - {group}
        content = {"kind": _KIND, "version": _VERSION, "groups": sorted(map(sorted, groups))}
        write_json(dataset.folder / _FILE, content)
