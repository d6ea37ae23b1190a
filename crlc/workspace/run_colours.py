"""The colours of a run's clusters, found once and kept beside its result: deleting another run does not change them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from crlc.analysis.colour_slots import DISTINCT_COLOURS, first_slots, inherited_slots
from crlc.errors import CrlcError
from crlc.files import read_json, write_json
from crlc.training.run_folder import RunFolder
from crlc.workspace.run_files import RunResult, read_result
from crlc.workspace.runs import Runs
from crlc.workspace.workspace import Workspace

_FILE, _KIND, _VERSION = "colours.json", "colours", 1
_ADVICE = "Delete it: it is made again."


def colour_slots(workspace: Workspace, run: RunFolder) -> tuple[int, ...]:
    """The number of the colour of each cluster of a run's newest result.

    They are those of the clusters that match in the parent, or else in the last run before it on the same images that
    has ended.

    Raises:
        CrlcError: the run has no result that can be used.
    """
    runs = Runs(workspace)
    waiting: list[tuple[RunFolder, RunResult]] = []
    earlier: RunFolder | None = run
    known: tuple[tuple[int, ...], RunResult] | None = None
    while earlier is not None and known is None:
        result = read_result(earlier)
        kept = _kept(earlier, result)
        if kept is None:
            waiting.append((earlier, result))
            earlier = _run_before(runs, earlier, [one.id for one, _ in waiting])
        else:
            known = kept, result
    for later, result in reversed(waiting):
        count = int(result.arrays["q"].shape[1])
        slots = first_slots(count) if known is None else _like(*known, result, count)
        if result.facts.get("final"):
            _keep(later, result, slots)
        known = slots, result
    assert known is not None  # the run itself was looked at
    return known[0]


def _like(slots: tuple[int, ...], before: RunResult, after: RunResult, count: int) -> tuple[int, ...]:
    old, new = before.arrays, after.arrays
    _, here, there = np.intersect1d(old["ids"], new["ids"], assume_unique=True, return_indices=True)
    return inherited_slots(slots, old["cluster"][here], new["cluster"][there], count)


def _run_before(runs: Runs, run: RunFolder, seen: list[str]) -> RunFolder | None:
    """The parent, or the last one before on the same data set; only runs that have ended count."""
    description, ids = run.description(), runs.ids()
    earlier = ids[: ids.index(run.id)] if run.id in ids else []
    candidates = [name for name in [description.get("parent"), *reversed(earlier)] if name in ids and name not in seen]
    return next((found for found in map(runs.open, candidates) if _is_ended(found, description)), None)


def _is_ended(run: RunFolder, description: dict[str, Any]) -> bool:
    try:
        same = run.description().get("dataset_uid") == description.get("dataset_uid")
        return same and bool(read_result(run).facts.get("final"))
    except CrlcError:
        return False


def _kept(run: RunFolder, result: RunResult) -> tuple[int, ...] | None:
    try:
        content = read_json(run.path / _FILE, _KIND, _VERSION, _ADVICE)
        slots = tuple(int(slot) for slot in content["slots"])
    except (CrlcError, OSError, KeyError, TypeError, ValueError):
        return None  # it is not there, or of no use: made again
    fits = content.get("result") == result.facts["folder"] and len(slots) == result.arrays["q"].shape[1]
    return slots if fits and all(0 <= slot < DISTINCT_COLOURS for slot in slots) else None


def _keep(run: RunFolder, result: RunResult, slots: tuple[int, ...]) -> None:
    with suppress(OSError):  # without rights or space they are found again the next time
        content = {"kind": _KIND, "version": _VERSION, "result": result.facts["folder"], "slots": list(slots)}
        write_json(run.path / _FILE, content)
