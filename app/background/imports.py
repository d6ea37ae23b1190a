"""Imports started on the Start page: they continue in the background when the page is left or closed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from app.background.import_preview import ImportPreview
from app.background.previews import load_preview_modules, start_preview
from app.background.tasks import BackgroundTask, dismiss_task, list_tasks, start_task
from crlc.data.dataset import ImageDataset
from crlc.data.options import PHOTOGRAPH_SIZE, ImportOptions
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.progress import Progress
from crlc.services.import_with_vectors import import_with_vectors
from crlc.workspace import Workspace
from crlc.workspace.recent_folders import add_recent_folder


@dataclass(frozen=True)
class ImportOutcome:
    """Result of a finished import."""

    dataset: str
    readable: int
    """Number of images that could be decoded."""

    unreadable: int
    """Number of files that could not be read."""

    seconds: float

    @property
    def text(self) -> str:
        """Sentence about the import for the user."""
        text = f"Imported {format_count(self.readable, 'image')} from {self.dataset}."
        if not self.unreadable:
            return text
        return f"{text} {format_count(self.unreadable, 'file')} could not be read; the Start page lists them."


@dataclass(frozen=True)
class ImportInProgress:
    """Result of an import while it decodes images: from then on, they can be shown."""

    dataset: str


def start_import(
    workspace: Workspace,
    source: str,
    name: str | None = None,
    options: ImportOptions | None = None,
    vectors: Path | None = None,
) -> str:
    """Start an import, unless the same source is being imported; return the key of its task.

    Args:
        workspace: receives the dataset.
        source: a path, or the name of a built-in dataset.
        name: the dataset to resume or update; by default a name made from the source.
        options: import options; those that are not set stay as in an earlier import.
        vectors: file of vectors of the images, which replace the features of a backbone.
    """

    def run(task: BackgroundTask) -> None:
        load_preview_modules()  # while the images are decoded in other processes
        with ImportPreview() as preview:

            def start_decoding(dataset: ImageDataset, sizes: tuple[int, ...]) -> None:
                task.result = ImportInProgress(dataset.name)
                if vectors is None:
                    preview.start(dataset, sizes)

            def report(progress: Progress) -> None:
                preview.report(progress)
                task.report(progress)

            try:
                load = (
                    workspace.import_dataset
                    if vectors is None
                    else partial(import_with_vectors, workspace, vectors=vectors)
                )
                dataset, outcome, *_ = load(
                    source, name=name, options=options, report=report, decoding_starts=start_decoding
                )
            except OSError as error:
                raise CrlcError(
                    f"{source} could not be imported: {error}.", advice="Check the path, your permissions and the disk."
                ) from None
        task.result = ImportOutcome(dataset.name, outcome.readable, sum(outcome.unreadable.values()), outcome.seconds)
        if dataset.info.source_kind != "builtin":
            add_recent_folder(workspace, dataset.info.location)
        if vectors is not None or dataset.get_default_size() == PHOTOGRAPH_SIZE:
            start_preview(workspace, dataset, preview.wait)  # other images are first trained, or decoded at this size

    for key, task in list_imports(workspace).items():
        if not task.is_running and task.error is None:
            dismiss_task(key)  # its session has been closed
    key = f"{_build_prefix(workspace)}{source}"
    start_task(key, f"Importing {source}", run)
    return key


def list_imports(workspace: Workspace) -> dict[str, BackgroundTask]:
    """Return the imports that are running, or have ended and were not dismissed, by key."""
    return list_tasks(_build_prefix(workspace))


def find_running_imports(workspace: Workspace) -> dict[str, BackgroundTask]:
    """Return the running imports by source: a path, or the name of a built-in dataset."""
    prefix = _build_prefix(workspace)
    return {key.removeprefix(prefix): task for key, task in list_imports(workspace).items() if task.is_running}


def find_import(workspace: Workspace, dataset: str) -> str | None:
    """Return the key of the running import that decodes images of a dataset; `None` if there is none."""
    for key, task in list_imports(workspace).items():
        if task.is_running and task.result == ImportInProgress(dataset):
            return key
    return None


def find_locations_being_imported(workspace: Workspace) -> set[str]:
    """Return the locations, as `DatasetInfo.location` has them, of the imports that this server is running."""
    locations = set()
    for source in find_running_imports(workspace):
        locations |= {source, os.path.realpath(os.path.expanduser(source))}
    return locations


def _build_prefix(workspace: Workspace) -> str:
    return f"import-{workspace.root}-"
