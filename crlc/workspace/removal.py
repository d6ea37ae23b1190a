"""Removing a data set together with its runs, which are of no use without it."""

from __future__ import annotations

from crlc.errors import CrlcError, UsageError
from crlc.workspace.runs import Runs
from crlc.workspace.workspace import Workspace

_TRAINS = ("queued", "running", "stopping")


def runs_of_dataset(workspace: Workspace, name: str) -> list[str]:
    """The runs of a data set, oldest first; for one that is damaged, those of its name."""
    try:
        uid = workspace.dataset(name).info.uid
    except CrlcError:
        uid = None
    runs, found = Runs(workspace), []
    for run_id in runs.ids():
        try:
            description = runs.open(run_id).description()
        except CrlcError:
            continue  # nobody can say whose it is
        if description.get("dataset_uid") == uid or (uid is None and description.get("dataset") == name):
            found.append(run_id)
    return found


def remove_with_runs(workspace: Workspace, name: str) -> int:
    """Forget a data set, its labels and its runs; the originals are not touched.

    The runs go first: cut off in between, the data set is still there to be removed.

    Returns:
        how many runs went with it.

    Raises:
        UsageError: one of its runs is being trained.
        CrlcError: there is no such data set, or it is being written.
    """
    runs, own = Runs(workspace), runs_of_dataset(workspace, name)
    for run_id in own:
        state = runs.open(run_id).status()["state"]
        if state in _TRAINS:
            raise UsageError(f"{run_id} is {state}: stop it first, then remove {name}.")
    for run_id in own:
        runs.delete(runs.open(run_id))
    workspace.remove(name)
    return len(own)
