"""Exporters: what an export reads, of a run or of the provisional clusters of a dataset without runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from crlc.analysis.maps.settings import MapSettings
from crlc.annotations.state import AnnotationState
from crlc.annotations.store import read_annotations as read_annotations_from_disk
from crlc.clusters.colours import load_or_assign_colours
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError, UsageError
from crlc.export.destinations import make_safe_file_name, require_new_file
from crlc.export.rows import PROVISIONAL, RunExport
from crlc.progress import ProgressCallback, no_progress
from crlc.runs.folder import RunFolder
from crlc.runs.maps import load_any_map, load_run_map
from crlc.runs.results import read_result
from crlc.runs.run_title import build_file_stem, format_run_title
from crlc.services.exploration import read_exploration
from crlc.services.export_types import DEFAULT_PREVIEW_ROWS, ExportFormat, ExportOptions, ExportPreview, ExportReport
from crlc.workspace.runs import RunStore
from crlc.workspace.workspace import Workspace


class Exporter(ABC):
    """Interface shared by the exporters of runs and of provisional clusters."""

    def __init__(
        self,
        workspace: Workspace,
        dataset: ImageDataset,
        read_annotations: Callable[[ImageDataset], AnnotationState] | None = None,
    ) -> None:
        """Store the workspace and the dataset.

        Args:
            workspace: workspace of the dataset.
            dataset: dataset of the exported images.
            read_annotations: returns the current annotations of the dataset; `None` to read them from disk.
        """
        self.workspace, self.dataset = workspace, dataset
        self._read_annotations = read_annotations or read_annotations_from_disk

    @cached_property
    def annotations(self) -> AnnotationState:
        """Labels, exclusions and edits of the dataset."""
        return self._read_annotations(self.dataset)

    def write(
        self, export_format: ExportFormat, path: Path, options: ExportOptions, report: ProgressCallback = no_progress
    ) -> ExportReport:
        """Write an export to a new file or folder. Nothing is overwritten; after an error, nothing is left behind.

        Args:
            export_format: one of `FORMATS`.
            path: path of the new file or folder; a folder may exist if it is empty.
            options: options of the format.
            report: receives progress.

        Raises:
            UsageError: the destination cannot be used, or the format needs a trained network and there is none.
            CrlcError: the run has no result, or the destination cannot be written.
        """
        if not export_format.is_folder:
            require_new_file(path)  # before a long computation; writers check again
        return export_format.write(self, path, options, report)

    def preview(
        self, export_format: ExportFormat, options: ExportOptions, rows: int = DEFAULT_PREVIEW_ROWS
    ) -> ExportPreview | None:
        """Return the first `rows` rows of an export, or `None` for a format without rows.

        A map that is not stored yet is not computed for a preview.

        Raises:
            CrlcError: the run has no result.
        """
        return None if export_format.preview is None else export_format.preview(self, options, rows)

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Folder of the exported result, which identifies it."""

    @abstractmethod
    def get_run(self) -> RunFolder:
        """Return the run whose network an export contains.

        Raises:
            UsageError: nothing was trained.
        """

    @abstractmethod
    def has_map(self, method: str | None = None) -> bool:
        """Return whether a map of the given method is stored; `None` for any method.

        Raises:
            CrlcError: the run has no result.
        """

    @abstractmethod
    def build_default_file_name(self, export_format: ExportFormat) -> str:
        """Return the file name of a download."""

    @abstractmethod
    def load_colours(self) -> Sequence[int]:
        """Return the colour of each cluster; empty if clusters have the colours of their numbers."""

    @abstractmethod
    def read_vectors(self, kind: str) -> NDArray[Any]:
        """Return the vectors `z` or `h` of the result, memory-mapped; `RunExport.rows` has their rows.

        Raises:
            CrlcError: the run has no result.
        """

    @abstractmethod
    def read_rows(self, method: str | None = None, report: ProgressCallback = no_progress) -> RunExport:
        """Combine the result with the annotations and the coordinates of a map.

        Args:
            method: map method; `None` for any stored map, if there is one.
            report: receives the progress of the map.

        Raises:
            CrlcError: there is no result, or no map of this method can be computed.
        """


class RunExporter(Exporter):
    """Exporter of one run."""

    def __init__(
        self,
        workspace: Workspace,
        run: RunFolder,
        read_annotations: Callable[[ImageDataset], AnnotationState] | None = None,
    ) -> None:
        """Open the dataset of a run.

        Args:
            workspace: workspace of the run.
            run: run to export.
            read_annotations: returns the current annotations of the dataset; `None` to read them from disk.

        Raises:
            CrlcError: the dataset of the run no longer exists.
        """
        dataset = RunStore(workspace).open_dataset_of(run.read_metadata(), require_unchanged=False)
        super().__init__(workspace, dataset, read_annotations)
        self.run = run

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.run.path

    def get_run(self) -> RunFolder:
        """Return the run."""
        return self.run

    def has_map(self, method: str | None = None) -> bool:
        """Return whether a map of the given method is stored with the run; `None` for any method.

        Raises:
            CrlcError: the run has no result.
        """
        z = read_result(self.run).arrays["z"]
        stored = load_any_map(self.run, z) if method is None else load_run_map(self.run, z, MapSettings(method))
        return stored is not None

    def build_default_file_name(self, export_format: ExportFormat) -> str:
        """Return the file name of a download: dataset and name of the run, or for labels the dataset alone."""
        title = "" if export_format.key == "labels" else format_run_title(self.run.read_metadata())
        return make_safe_file_name(build_file_stem(self.dataset.name, title) + export_format.suffix)

    def load_colours(self) -> Sequence[int]:
        """Return the colour of each cluster."""
        return load_or_assign_colours(self.workspace, self.run)

    def read_vectors(self, kind: str) -> NDArray[Any]:
        """Return the vectors `z` or `h` of the result, memory-mapped; `RunExport.rows` has their rows.

        Raises:
            CrlcError: the run has no result.
        """
        return read_result(self.run).arrays[kind]

    def read_rows(self, method: str | None = None, report: ProgressCallback = no_progress) -> RunExport:
        """Combine the result of the run with the annotations and the coordinates of a map.

        Args:
            method: map method; the map is computed if it is not stored. `None` for any stored map, if there is one.
            report: receives the progress of the map.
        """
        settings = None if method is None else MapSettings(method)
        return RunExport.from_run(self.run, self.dataset, self.annotations, map_settings=settings, report=report)


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
        super().__init__(workspace, dataset, read_annotations)
        found = read_exploration(dataset)
        if found is None or found.is_partial:
            raise NotFoundError(f"{dataset.name} has no provisional clusters yet.", advice="Explore the dataset first.")
        self.exploration = found

    @property
    def folder(self) -> Path:
        """Folder of the exploration."""
        return self.dataset.exploration_folder / str(self.exploration.metadata["folder"])

    def get_run(self) -> RunFolder:
        """Raise an error: provisional clusters have no network.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"The clusters of {self.dataset.name} are provisional: this format needs a trained network.",
            advice="Train a run first.",
        )

    def has_map(self, method: str | None = None) -> bool:
        """Return whether the exploration has a map of the method; `None` for any method."""
        return method in (None, self.exploration.metadata["map"]["method"])

    def build_default_file_name(self, export_format: ExportFormat) -> str:
        """Return the file name of a download: the dataset name with the suffix."""
        return make_safe_file_name(f"{self.dataset.name}-{PROVISIONAL}{export_format.suffix}")

    def load_colours(self) -> Sequence[int]:
        """Return no colours: clusters have those of their numbers."""
        return ()

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
