"""Which data set and run the pages are about: the newest ones."""

from __future__ import annotations

from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs


def chosen_run(workspace: Workspace) -> RunFolder | None:
    """The run that is chosen; none: the data set is looked at before any training."""
    runs = Runs(workspace)
    ids = runs.ids()
    return runs.open(ids[-1]) if ids else None


def chosen_dataset(workspace: Workspace) -> ImageDataset | None:
    """The data set that is chosen; none when there is none."""
    run = chosen_run(workspace)
    names = workspace.dataset_names()
    if run is not None:
        try:
            return workspace.dataset(run.description()["dataset"])
        except CrlcError:
            return None
    return workspace.dataset(names[-1]) if names else None
