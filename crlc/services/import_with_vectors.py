"""Use case: import a dataset together with vectors of its images, which are checked before images are decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crlc.data.dataset import ImageDataset
from crlc.data.imported_vectors import VectorReport, import_vectors
from crlc.data.importer import ImportReport
from crlc.data.vector_check import VectorListingCheck, check_vector_values
from crlc.data.vector_files import open_vector_file
from crlc.errors import CrlcError, SourceError
from crlc.progress import ProgressCallback, no_progress
from crlc.workspace.workspace import Workspace


def import_with_vectors(
    workspace: Workspace,
    given: str,
    vectors: Path,
    *,
    report: ProgressCallback = no_progress,
    **options: Any,
) -> tuple[ImageDataset, ImportReport, VectorReport]:
    """Import a dataset and its vectors. If the vectors are refused, no new dataset is left behind.

    Args:
        workspace: receives the dataset.
        given: path of a source, or name of a built-in dataset.
        vectors: file of vectors.
        report: receives the progress.
        **options: other arguments of `Workspace.import_dataset`.

    Raises:
        SourceError: the vectors cannot be used. Values, number and paths are checked before images are decoded.
        CrlcError: the import failed.
    """
    file = open_vector_file(vectors)
    check_vector_values(file, report)
    before = workspace.list_dataset_names()
    dataset, outcome = workspace.import_dataset(given, report=report, check_listing=VectorListingCheck(file), **options)
    try:
        return dataset, outcome, import_vectors(dataset, vectors, report)
    except SourceError as error:  # unreadable images were found, or the file was changed meanwhile
        if dataset.name not in before:
            workspace.remove_dataset(dataset.name)
            raise CrlcError(f"{error.message} The new dataset was removed.", advice=error.advice) from None
        raise CrlcError(f"{error.message} The images were imported without vectors.", advice=error.advice) from None
