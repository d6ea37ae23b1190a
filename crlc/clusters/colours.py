"""Colours of the clusters of a run, assigned once and stored, so that deleting another run does not change them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypedDict

import numpy as np

from crlc.analysis.cluster_colours import PALETTE_SIZE, assign_first_colours, inherit_colours
from crlc.errors import CrlcError
from crlc.files import read_json, write_json
from crlc.runs.folder import RunFolder
from crlc.runs.results import RunResult, read_result
from crlc.workspace.runs import RunStore
from crlc.workspace.workspace import Workspace

_FILE, _KIND, _VERSION = "colours.json", "colours", 1
_ADVICE = "Delete it: it is created again."


class _ColourEntries(TypedDict):
    result: str
    slots: list[int]


def load_or_assign_colours(workspace: Workspace, run: RunFolder) -> tuple[int, ...]:
    """Return the palette index of each cluster of the newest result of a run.

    A cluster has the colour of the matching cluster in the parent run or, without a parent, in the last finished run
    before it on the same dataset.

    Args:
        workspace: workspace of the run.
        run: the run.

    Raises:
        CrlcError: the run has no usable result.
    """
    runs = RunStore(workspace)
    uncoloured: list[tuple[RunFolder, RunResult]] = []
    earlier: RunFolder | None = run
    known: tuple[tuple[int, ...], RunResult] | None = None
    while earlier is not None and known is None:
        result = read_result(earlier)
        stored = _read_colours(earlier, result)
        if stored is None:
            uncoloured.append((earlier, result))
            earlier = _find_previous_run(runs, earlier, [one.id for one, _ in uncoloured])
        else:
            known = stored, result
    for later, result in reversed(uncoloured):
        count = int(result.arrays["q"].shape[1])
        colours = assign_first_colours(count) if known is None else _inherit_colours(*known, result, count)
        if result.metadata.get("final"):
            _write_colours(later, result, colours)
        known = colours, result
    assert known is not None  # at least the run itself was visited
    return known[0]


def _inherit_colours(colours: tuple[int, ...], before: RunResult, after: RunResult, count: int) -> tuple[int, ...]:
    old, new = before.arrays, after.arrays
    _, here, there = np.intersect1d(old["ids"], new["ids"], assume_unique=True, return_indices=True)
    return inherit_colours(colours, old["cluster"][here], new["cluster"][there], count)


def _find_previous_run(runs: RunStore, run: RunFolder, seen: list[str]) -> RunFolder | None:
    """Return the parent, or else the previous run on the same dataset; runs without a final result are skipped."""
    description, ids = run.read_metadata(), runs.list_ids()
    earlier = ids[: ids.index(run.id)] if run.id in ids else []
    candidates = [name for name in [description.get("parent"), *reversed(earlier)] if name in ids and name not in seen]
    return next((found for found in map(runs.open, candidates) if _has_final_result(found, description)), None)


def _has_final_result(run: RunFolder, description: dict[str, Any]) -> bool:
    try:
        same = run.read_metadata().get("dataset_uid") == description.get("dataset_uid")
        return same and bool(read_result(run).metadata.get("final"))
    except CrlcError:
        return False


def _read_colours(run: RunFolder, result: RunResult) -> tuple[int, ...] | None:
    try:
        content = read_json(run.path / _FILE, _KIND, _VERSION, _ADVICE, _ColourEntries)
    except CrlcError:
        return None  # missing or damaged: assigned again
    colours = tuple(content["slots"])
    fits = content["result"] == result.metadata["folder"] and len(colours) == result.arrays["q"].shape[1]
    return colours if fits and all(0 <= colour < PALETTE_SIZE for colour in colours) else None


def _write_colours(run: RunFolder, result: RunResult, colours: tuple[int, ...]) -> None:
    with suppress(OSError):  # if they cannot be stored, they are assigned again next time
        content = {"kind": _KIND, "version": _VERSION, "result": result.metadata["folder"], "slots": list(colours)}
        write_json(run.path / _FILE, content)
