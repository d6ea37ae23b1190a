"""Exports in the app: exporters that share the annotations of the app, and cached previews."""

from __future__ import annotations

from functools import lru_cache

from app.view_models.view_cache import open_annotations
from crlc.annotations.state import AnnotationState
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError
from crlc.runs.folder import RunFolder
from crlc.runs.results import read_result
from crlc.services.export import FORMATS, preview_labels
from crlc.services.export_types import ExportFormat, ExportOptions, ExportPreview
from crlc.services.exporters import Exporter, ProvisionalExporter, RunExporter
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

LINK_TITLES = {"absolute": "Links", "relative": "Relative links", "copy": "Copies"}
"""Kinds of links of the format `folders` and their names on screen."""


def open_exporter(workspace: Workspace, run: RunFolder) -> RunExporter:
    """Return the exporter of a run with the annotations that the app holds in memory.

    Raises:
        CrlcError: the dataset of the run no longer exists.
    """
    return RunExporter(workspace, run, _get_annotations)


def open_provisional_exporter(workspace: Workspace, dataset: ImageDataset) -> ProvisionalExporter:
    """Return the exporter of the provisional clusters of a dataset.

    Raises:
        NotFoundError: it has none yet.
    """
    return ProvisionalExporter(workspace, dataset, _get_annotations)


def open_run(workspace: Workspace, run_id: str) -> RunFolder:
    """Open a run by its complete id: a URL must not select another run by a prefix.

    Raises:
        NotFoundError: no run has this id.
    """
    runs = RunStore(workspace)
    if run_id not in runs.list_ids():
        raise NotFoundError(f"No run is named {run_id!r}.")
    return runs.open(run_id)


def preview_export(exporter: Exporter, export_format: ExportFormat, options: ExportOptions) -> ExportPreview | None:
    """Return the first rows of an export, cached until the result, annotations, dataset or map change.

    Returns:
        The preview; `None` if the format has no rows.

    Raises:
        CrlcError: the run has no result.
    """
    if export_format is FORMATS["labels"]:
        return preview_dataset_labels(exporter.dataset)
    state = (
        exporter.folder
        if isinstance(exporter, ProvisionalExporter)
        else read_result(exporter.get_run()).metadata["folder"],
        exporter.annotations.last_row_id,
        exporter.dataset.version,
        exporter.has_map(options.map),
    )
    return _preview(_CachedExporter(exporter), export_format.key, options, state)


def preview_dataset_labels(dataset: ImageDataset) -> ExportPreview:
    """Return the first labels of a dataset, cached until the annotations change. It needs no run."""
    return _preview_labels(dataset, _get_annotations(dataset).last_row_id)


class _CachedExporter:
    """An exporter as a key of a cache: equal to others of the same result."""

    def __init__(self, exporter: Exporter) -> None:
        self.exporter = exporter

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CachedExporter) and self.exporter.folder == other.exporter.folder

    def __hash__(self) -> int:
        return hash(self.exporter.folder)


@lru_cache(maxsize=32)
def _preview(
    cached: _CachedExporter, key: str, options: ExportOptions, _state: tuple[object, ...]
) -> ExportPreview | None:
    return cached.exporter.preview(FORMATS[key], options)


@lru_cache(maxsize=32)
def _preview_labels(dataset: ImageDataset, _operation: object) -> ExportPreview:
    return preview_labels(dataset, _get_annotations(dataset))


def _get_annotations(dataset: ImageDataset) -> AnnotationState:
    return open_annotations(dataset).refresh()
