"""Suggested merges and splits that the user dismissed, stored with the run, so that they stay away after a restart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

from crlc.errors import CrlcError
from crlc.files import read_json_to_update, write_json, writer_lock
from crlc.runs.folder import RunFolder

_FILE, _KIND, _VERSION = "dismissed.json", "dismissed-suggestions", 1
_ADVICE = "Delete it: dismissed suggestions are then shown again."
_LOCK_SECONDS = 5.0
_MAX_SIZE_CHANGE = 0.2
"""A dismissed suggestion is shown again once one of its clusters has grown or shrunk by more than this fraction."""


class Dismissal(NamedTuple):
    """A suggestion that the user dismissed: one cluster that could be split, or two that could be merged."""

    clusters: tuple[int, ...]
    sizes: tuple[int, ...]
    """Number of images of each cluster at that time."""

    def matches(self, clusters: Sequence[int], sizes: Sequence[int]) -> bool:
        """Return whether a suggestion is the dismissed one: the same clusters, with about the same images."""
        return self.clusters == tuple(clusters) and all(
            abs(now - before) <= _MAX_SIZE_CHANGE * before for now, before in zip(sizes, self.sizes, strict=True)
        )


class _DismissalEntries(TypedDict):
    clusters: list[int]
    sizes: list[int]


class _DismissedEntries(TypedDict):
    result: str
    dismissed: list[_DismissalEntries]


def read_dismissals(run: RunFolder, result: str) -> list[Dismissal]:
    """Return the dismissed suggestions of a result; none if their file cannot be read.

    Args:
        run: the run.
        result: fingerprint of the result: cluster numbers are valid only in this result.
    """
    try:
        return _read_to_update(run, result)
    except CrlcError:
        return []


def dismiss_suggestion(run: RunFolder, result: str, clusters: Sequence[int], sizes: Sequence[int]) -> None:
    """Store a suggestion as dismissed.

    Args:
        run: the run.
        result: fingerprint of the result.
        clusters: one cluster that could be split, or two that could be merged.
        sizes: number of images of each cluster.

    Raises:
        CrlcError: the file cannot be written, or cannot be read now: its content would be lost.
    """
    with writer_lock(_get_lock_path(run), "dismissed suggestions", _LOCK_SECONDS):
        others = [one for one in _read_to_update(run, result) if one.clusters != tuple(clusters)]
        _write_dismissals(run, result, [*others, Dismissal(tuple(clusters), tuple(sizes))])


def restore_suggestions(run: RunFolder, result: str) -> None:
    """Show all dismissed suggestions of a result again.

    Raises:
        CrlcError: the file cannot be written, or cannot be read now: its content would be lost.
    """
    with writer_lock(_get_lock_path(run), "dismissed suggestions", _LOCK_SECONDS):
        _read_to_update(run, result)
        _write_dismissals(run, result, [])


def _read_to_update(run: RunFolder, result: str) -> list[Dismissal]:
    content = read_json_to_update(run.path / _FILE, _KIND, _VERSION, _ADVICE, _DismissedEntries)
    if content is None or content["result"] != result:
        return []
    found = [Dismissal(tuple(one["clusters"]), tuple(one["sizes"])) for one in content["dismissed"]]
    return [one for one in found if len(one.clusters) == len(one.sizes)]


def _get_lock_path(run: RunFolder) -> Path:
    return run.path / "dismissed.lock"


def _write_dismissals(run: RunFolder, result: str, dismissals: list[Dismissal]) -> None:
    content = {"kind": _KIND, "version": _VERSION, "result": result, "dismissed": [one._asdict() for one in dismissals]}
    write_json(run.path / _FILE, content)
