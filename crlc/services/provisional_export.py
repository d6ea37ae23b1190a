"""Export of the provisional clusters of a dataset that was explored, but not trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from crlc.annotations.state import AnnotationState
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError, UsageError
from crlc.export.destinations import make_safe_file_name
from crlc.export.rows import PROVISIONAL, RunExport
from crlc.progress import ProgressCallback, no_progress
from crlc.services.exploration import read_exploration
from crlc.services.export import FORMATS, Exporter, read_dataset_annotations
from crlc.services.export_types import ExportFormat
from crlc.workspace.workspace import Workspace

PROVISIONAL_FORMATS = {
    key: FORMATS[key]
    for key in ("csv", "parquet", "folders", "html", "imagefolder", "fiftyone", "label-studio", "coco", "vectors")
}
"""Formats that need no trained network."""


class ProvisionalExporter(Exporter):
    """Exporter of provisional clusters. They have no confidence, and one map: that of the exploration."""

    def __init__(
        self,
        workspace: Workspace,
        dataset: ImageDataset,
        read_annotations: Callable[[ImageDataset], AnnotationState] | None = None,
    ) -> None:
        """Read the stored exploration of a dataset.

        Args:
            workspace: workspace of the dataset.
            dataset: dataset to export.
            read_annotations: returns the current annotations of the dataset; `None` to read them from disk.

        Raises:
            NotFoundError: the dataset was not explored, or only a part of it so far.
        """
        found = read_exploration(dataset)
        if found is None or found.is_partial:
            raise NotFoundError(f"{dataset.name} has no provisional clusters yet.", advice="Explore the dataset first.")
        self.workspace, self.dataset, self.exploration = workspace, dataset, found
        self._read_annotations = read_annotations or read_dataset_annotations

    @property
    def folder(self) -> Path:
        """Folder of the exploration, which identifies it."""
        return self.dataset.exploration_folder / str(self.exploration.metadata["folder"])

    def has_map(self, method: str | None = None) -> bool:
        """Return whether the exploration has a map of the method; `None` for any method."""
        return method in (None, self.exploration.metadata["map"]["method"])

    def load_colours(self) -> Sequence[int]:
        """Return no colours: clusters have those of their numbers."""
        return ()

    def build_default_file_name(self, export_format: ExportFormat) -> str:
        """Return the file name of a download: the dataset name with the suffix."""
        return make_safe_file_name(f"{self.dataset.name}-{PROVISIONAL}{export_format.suffix}")

    def read_vectors(self, kind: str) -> NDArray[Any]:
        """Return the features of the exploration.

        Args:
            kind: not used: there is one kind, as nothing was trained.
        """
        del kind
        return self.exploration.vectors

    def read_rows(self, method: str | None = None, report: ProgressCallback = no_progress) -> RunExport:
        """Combine the exploration with the annotations.

        Args:
            method: map method; `None` for that of the exploration.
            report: not called: nothing is computed.

        Raises:
            UsageError: the exploration has another map.
        """
        del report
        if not self.has_map(method):
            raise UsageError(f"map={method!r} is not allowed: the provisional clusters have another map.")
        found = self.exploration
        return RunExport.from_provisional_clusters(
            self.dataset, self.annotations, found.ids, found.clusters, found.coordinates
        )
