"""What can be taken away of a run, without Streamlit: the formats, what each is for, previews, and the writing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from app.exploring.opened import annotations_of
from crlc.analysis.map_settings import MapSettings
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError, UsageError
from crlc.files import write_new_file
from crlc.names import printable
from crlc.progress import ProgressCallback, no_progress
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.export.html_map import MOST_THUMBNAILS, write_html_map
from crlc.workspace.export.links import KINDS, write_links
from crlc.workspace.export.places import require_new_file, trouble_explained
from crlc.workspace.export.rows import RunExport
from crlc.workspace.export.tables import record_batch, write_table
from crlc.workspace.image_lookup import paths_of
from crlc.workspace.label_table import write_labels
from crlc.workspace.run_colours import colour_slots
from crlc.workspace.run_files import read_result
from crlc.workspace.run_maps import kept_map, ready_run_map
from crlc.workspace.runs import Runs

PREVIEWED = 12
"""Rows: as many as fit on a small screen."""

_MAPS = ("umap", "tsne", "pca")


@dataclass(frozen=True)
class Format:
    """One way to take something away."""

    key: str
    """In addresses."""

    title: str
    purpose: str
    """What it is for, in one line."""

    ending: str = ""
    """Of the file; empty for a folder."""

    media_type: str = "application/octet-stream"


FORMATS = {
    one.key: one
    for one in (
        Format("csv", "CSV table", "One row per image, for a spreadsheet or any program.", ".csv", "text/csv"),
        Format("parquet", "Parquet table", "The same, smaller and with types: for pandas, Polars, DuckDB.", ".parquet"),
        Format("folders", "Folder per cluster", "Links to your images, or copies, sorted into folders by cluster."),
        Format("html", "Map as a web page", "One page that shows map and images in any browser, without this app.",
               "-map.html", "text/html"),
        Format("model", "Trained model", "Assigns new images: crlc assign MODEL PATH, on any computer.", ".crlc"),
        Format("labels", "Labels", "Only what people said: path and label, to import again here or elsewhere.",
               "-labels.csv", "text/csv"),
    )
}  # fmt: skip
WITH_MAP = ("csv", "parquet", "html")
"""Formats that hold places on a map."""

LINK_KINDS = {"absolute": "Links", "relative": "Relative links", "copy": "Copies"}
assert tuple(LINK_KINDS) == KINDS


@dataclass(frozen=True)
class ExportOptions:
    """How it is wanted."""

    map: str | None = None
    """Which map; none for one that is there already."""

    excluded: bool = True
    """Whether tables have the images that people excluded."""

    def __post_init__(self) -> None:
        """Check the map.

        Raises:
            NotFoundError: there is no such map.
        """
        if self.map is not None and self.map not in _MAPS:
            raise NotFoundError(f"No map is called {self.map!r}; there are {', '.join(_MAPS)}.")


@dataclass(frozen=True)
class Preview:
    """The first rows of a table, and how many there are."""

    rows: list[dict[str, Any]]
    count: int
    remarks: tuple[str, ...] = ()


def file_name(run: RunFolder, one: Format) -> str:
    """What the file is called where it is saved; labels are of the data set."""
    stem = run.description()["dataset"] if one.key == "labels" else run.id
    return f"{stem}{one.ending}"


def run_named(workspace: Workspace, run_id: str) -> RunFolder:
    """A run by its whole id.

    Raises:
        NotFoundError: there is none.
    """
    runs = Runs(workspace)
    if run_id not in runs.ids():  # `open` would also take the beginning of a name
        raise NotFoundError(f"No run is named {run_id!r}.")
    return runs.open(run_id)


def destination(text: str, usual: str, one: Format) -> Path:
    """Where something is to be saved, from what a person typed; a file goes into a folder under its usual name.

    Raises:
        UsageError: it is no whole path, or its ending says something else.
    """
    if not text.strip():
        raise UsageError("Enter a path first.")
    path = Path(text.strip()).expanduser()
    if not path.is_absolute():
        raise UsageError(f"{printable(str(path))} is no whole path: it must begin at the root, or with ~.")
    if one.ending and path.is_dir():
        path = path / usual
    if one.key in ("csv", "parquet", "html") and path.suffix.lower() != f".{one.key}":
        raise UsageError(f"{printable(str(path))} should end in .{one.key}.")
    return path


def gathered(
    workspace: Workspace, run: RunFolder, method: str | None = None, report: ProgressCallback = no_progress
) -> RunExport:
    """Everything that is known of a run's images now.

    Raises:
        CrlcError: it has no result yet, or its data set is gone.
    """
    dataset = Runs(workspace).dataset_of(run.description(), unchanged=False)
    read_result(run)  # says what is damaged
    wanted = None if method is None else MapSettings(method)
    return RunExport.of(run, dataset, annotations_of(dataset).refresh(), wanted_map=wanted, report=report)


def has_map(run: RunFolder, method: str | None) -> bool:
    """Whether a map, or any, is there already.

    Raises:
        CrlcError: the run has no result yet.
    """
    z = read_result(run).arrays["z"]
    found = kept_map(run, z) if method is None else ready_run_map(run, z, MapSettings(method))
    return found is not None


def write_export(
    workspace: Workspace,
    run: RunFolder,
    one: Format,
    file: Path,
    options: ExportOptions,
    report: ProgressCallback = no_progress,
) -> str:
    """Write a file; it is there whole or not at all.

    Returns:
        what was written, in a sentence.

    Raises:
        CrlcError: it cannot be had or written.
    """
    require_new_file(file)
    return _WRITERS[one.key](workspace, run, file, options, report)


def write_folders(
    workspace: Workspace, run: RunFolder, folder: Path, kind: str, report: ProgressCallback = no_progress
) -> str:
    """Make a folder per cluster; returns what was made, in a sentence.

    Raises:
        CrlcError: it cannot be made there.
    """
    made = write_links(gathered(workspace, run), folder, kind, report)
    what = "copies" if kind == "copy" else "links"
    left_out = {"excluded": made.excluded, "not assigned": made.not_assigned, "original not readable": made.missing}
    words = [f"{count:,} {reason}" for reason, count in left_out.items() if count]
    said = f"Made {made.images:,} {what} in {made.clusters} folders of {printable(str(folder))}."
    return said + (f" Left out: {', '.join(words)}." if words else "")


def _write_table(
    workspace: Workspace, run: RunFolder, file: Path, options: ExportOptions, report: ProgressCallback
) -> str:
    made = write_table(gathered(workspace, run, options.map, report), file, report, excluded=options.excluded)
    return f"Wrote {made.images:,} images to {printable(str(file))}."


def _write_page(
    workspace: Workspace, run: RunFolder, file: Path, options: ExportOptions, report: ProgressCallback
) -> str:
    method = options.map or (None if has_map(run, None) else _MAPS[0])
    export = gathered(workspace, run, method, report)
    made = write_html_map(export, file, report, slots=colour_slots(workspace, run))
    return f"Wrote a map of {made.images:,} images to {printable(str(file))}."


def _write_model(
    workspace: Workspace, run: RunFolder, file: Path, options: ExportOptions, report: ProgressCallback
) -> str:
    del options, report
    from crlc.training.device import choose_device
    from crlc.training.model_file import save_model
    from crlc.workspace.models import named_model

    model = named_model(Runs(workspace), run, choose_device("cpu"))
    with trouble_explained(file):
        save_model(model, file)
    return f"Wrote the model of {run.id} to {printable(str(file))}."


def _write_labels(
    workspace: Workspace, run: RunFolder, file: Path, options: ExportOptions, report: ProgressCallback
) -> str:
    del options, report
    dataset = Runs(workspace).dataset_of(run.description(), unchanged=False)
    text = StringIO(newline="")
    count = write_labels(dataset, annotations_of(dataset).refresh(), text)
    with trouble_explained(file):
        write_new_file(file, lambda stream: stream.write(text.getvalue().encode()))
    return f"Wrote {count:,} labels to {printable(str(file))}."


_WRITERS: dict[str, Callable[[Workspace, RunFolder, Path, ExportOptions, ProgressCallback], str]] = {
    "csv": _write_table,
    "parquet": _write_table,
    "html": _write_page,
    "model": _write_model,
    "labels": _write_labels,
}


# ---- previews


def preview(workspace: Workspace, run: RunFolder, one: Format, options: ExportOptions) -> Preview:
    """The first rows of what would be written; read again only when something has changed.

    Raises:
        CrlcError: there is nothing to be had.
    """
    dataset = Runs(workspace).dataset_of(run.description(), unchanged=False)
    if one.key == "labels":
        return labels_preview(dataset)
    operation = annotations_of(dataset).refresh().operation
    state = (read_result(run).facts["folder"], operation, dataset.version, has_map(run, options.map))
    if one.key == "folders":
        return _folders_preview(workspace.root, run.path, dataset, state)
    return _table_preview(workspace.root, run.path, dataset, options, state)


@lru_cache(maxsize=32)
def _table_preview(
    root: Path, run: Path, dataset: ImageDataset, options: ExportOptions, state: tuple[object, ...]
) -> Preview:
    del dataset, state
    # A map that is not there yet is not computed to be looked at.
    method = options.map if options.map is not None and has_map(RunFolder(run), options.map) else None
    export = gathered(Workspace(root), RunFolder(run), method)
    rows: list[dict[str, Any]] = []
    count = excluded = missing = 0
    for chunk in export.chunks():
        if len(rows) < PREVIEWED:
            found = record_batch(export, chunk).to_pylist()[: 4 * PREVIEWED]
            rows += [row for row in found if options.excluded or not row["excluded"]]
        count += len(chunk.ids)
        excluded += int(chunk.excluded.sum())
        missing += int((~chunk.assigned).sum())
    remarks = []
    if excluded:
        remarks.append(f"{excluded:,} excluded images are {'marked in a column' if options.excluded else 'left out'}.")
    if missing:
        remarks.append(f"{missing:,} images came or changed after the run: they have no cluster.")
    return Preview(rows[:PREVIEWED], count if options.excluded else count - excluded, tuple(remarks))


@lru_cache(maxsize=32)
def _folders_preview(root: Path, run: Path, dataset: ImageDataset, state: tuple[object, ...]) -> Preview:
    del dataset, state
    export = gathered(Workspace(root), RunFolder(run))
    counts = np.zeros(export.clusters.first_new, np.int64)
    for chunk in export.chunks():
        counts += np.bincount(chunk.cluster[chunk.assigned & ~chunk.excluded], minlength=len(counts))
    rows = [
        {"cluster": number, "name": export.names.get(number, ""), "images": int(counts[number])}
        for number in np.flatnonzero(counts).tolist()
    ]
    return Preview(rows, len(rows))


def labels_preview(dataset: ImageDataset) -> Preview:
    """The first labels of a data set, which needs no run."""
    return _labels_preview(dataset, annotations_of(dataset).refresh().operation)


@lru_cache(maxsize=32)
def _labels_preview(dataset: ImageDataset, operation: object) -> Preview:
    del operation
    labelled = annotations_of(dataset).refresh().labelled()
    names = dict(zip(labelled.ids.tolist(), (labelled.names[number] for number in labelled.numbers), strict=True))
    first = islice(paths_of(dataset, labelled.ids), PREVIEWED)
    rows = [{"path": printable(path), "label": names[number]} for number, path in first]
    return Preview(rows, len(labelled.ids))


def pictures_on_page(count: int) -> bool:
    """Whether a page with so many points has pictures."""
    return count <= MOST_THUMBNAILS
