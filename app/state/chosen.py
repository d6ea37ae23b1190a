"""The data set and run that all pages are about, opened."""

from __future__ import annotations

from app.state.selection import selection
from crlc.data.dataset import ImageDataset
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs


def chosen_run(workspace: Workspace) -> RunFolder | None:
    """The run that is chosen; none: the data set is looked at before any training.

    Raises:
        NotFoundError: it was deleted since.
    """
    name = selection().run
    return None if name is None else Runs(workspace).open(name)


def chosen_dataset(workspace: Workspace) -> ImageDataset | None:
    """The data set that is chosen; none when there is none.

    Raises:
        CrlcError: it was removed since, or is damaged.
    """
    name = selection().dataset
    return None if name is None else workspace.dataset(name)
