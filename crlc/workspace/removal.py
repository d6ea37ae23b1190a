"""Removal of a dataset together with its runs, which need its images."""

from __future__ import annotations

from crlc.errors import CrlcError, UsageError
from crlc.workspace.runs import RunStore
from crlc.workspace.workspace import Workspace


def find_runs_of_dataset(workspace: Workspace, name: str) -> list[str]:
    """Return the ids of the runs of a dataset, oldest first. Runs of a damaged dataset are matched by its name."""
    try:
        uid = workspace.open_dataset(name).info.uid
    except CrlcError:
        uid = None
    runs, found = RunStore(workspace), []
    for run_id in runs.list_ids():
        try:
            description = runs.open(run_id).read_metadata()
        except CrlcError:
            continue  # its dataset is unknown
        if description.get("dataset_uid") == uid or (uid is None and description.get("dataset") == name):
            found.append(run_id)
    return found


def remove_dataset_with_runs(workspace: Workspace, name: str) -> int:
    """Remove a dataset, its labels and its runs. The original images are not touched.

    The runs are removed first, so that the removal can be repeated after an interruption.

    Returns:
        The number of removed runs.

    Raises:
        UsageError: one of its runs is active.
        CrlcError: the dataset does not exist, or another process is writing it.
    """
    runs, own = RunStore(workspace), find_runs_of_dataset(workspace, name)
    for run_id in own:
        state = runs.open(run_id).read_status().state
        if state.is_active:
            raise UsageError(
                f"The run {run_id} of {name} is {state}.", advice="Stop it first, then remove the dataset."
            )
    for run_id in own:
        runs.delete(runs.open(run_id))
    workspace.remove_dataset(name)
    return len(own)
