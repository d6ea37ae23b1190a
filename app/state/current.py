"""Access to the dataset and run that are selected for all pages."""

from __future__ import annotations

from app.state.selection import get_selection
from crlc.data.dataset import ImageDataset
from crlc.runs.folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore


def open_current_run(workspace: Workspace) -> RunFolder | None:
    """Return the selected run; `None` if the untrained dataset is selected.

    Raises:
        NotFoundError: the run has been deleted.
    """
    name = get_selection().run
    return None if name is None else RunStore(workspace).open(name)


def open_current_dataset(workspace: Workspace) -> ImageDataset | None:
    """Return the selected dataset; `None` if there is no dataset.

    Raises:
        CrlcError: the dataset has been removed, or is damaged.
    """
    name = get_selection().dataset
    return None if name is None else workspace.open_dataset(name)
