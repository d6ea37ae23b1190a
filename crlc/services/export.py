"""Export use case: the formats with their writers and previews, and the destinations that users type."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from crlc.analysis.maps.settings import DEFAULT_MAP_METHOD
from crlc.annotations.label_csv import write_label_file
from crlc.annotations.state import AnnotationState
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import read_paths
from crlc.errors import UsageError
from crlc.export.destinations import explain_write_errors, write_new_text
from crlc.export.folders import write_cluster_folders
from crlc.export.html_map import write_html_map
from crlc.export.tables import build_record_batch, read_further_columns, write_table
from crlc.formatting import format_count
from crlc.paths import parse_typed_path, to_printable
from crlc.progress import ProgressCallback
from crlc.runs.run_title import read_run_title
from crlc.services.export_types import (
    DEFAULT_PREVIEW_ROWS,
    ExportFormat,
    ExportOptions,
    ExportPreview,
    ExportReport,
)
from crlc.services.exporters import Exporter
from crlc.services.tool_exports import (
    explain_coco,
    explain_fiftyone,
    explain_image_folder,
    explain_label_studio,
    explain_onnx,
    explain_vectors,
    write_coco_export,
    write_fiftyone_export,
    write_image_folder_export,
    write_label_studio_export,
    write_onnx_export,
    write_vectors_export,
)
from crlc.workspace.runs import RunStore


def resolve_destination(text: str, default_name: str, export_format: ExportFormat) -> Path:
    """Return the destination that a user typed: an absolute path or `file://` URL; `~` is the home directory.

    If a file is exported and `text` is an existing folder, the file is called `default_name`.

    Raises:
        UsageError: the path is empty or relative, or its suffix contradicts the format.
    """
    typed = parse_typed_path(text)
    if not typed:
        raise UsageError("The path is empty.", advice="Enter an absolute path.")
    path = Path(typed)
    if not path.is_absolute():
        raise UsageError(
            f"{to_printable(str(path))} is a relative path.",
            advice=f"Enter an absolute path, e.g. {Path.home() / path}.",
        )
    if not export_format.is_folder and path.is_dir():
        path = path / default_name
    if export_format in _BY_SUFFIX.values() and path.suffix.lower() != f".{export_format.key}":
        raise UsageError(f"{to_printable(str(path))} is not allowed: the file must end in .{export_format.key}.")
    return path


def find_format(file: Path) -> ExportFormat:
    """Return the table or map format with the suffix of a file.

    Raises:
        UsageError: no format has this suffix.
    """
    export_format = _BY_SUFFIX.get(file.suffix.lower())
    if export_format is None:
        raise UsageError(
            f"{to_printable(str(file))} is not allowed: its suffix determines the format and must be one of "
            f"{', '.join(_BY_SUFFIX)}."
        )
    return export_format


def preview_labels(
    dataset: ImageDataset, annotations: AnnotationState, rows: int = DEFAULT_PREVIEW_ROWS
) -> ExportPreview:
    """Return the first `rows` labels of a dataset; no run is needed."""
    labelled = annotations.to_label_set()
    names = labelled.to_mapping()
    first = islice(read_paths(dataset, labelled.ids), rows)
    shown = [{"path": to_printable(path), "label": names[number]} for number, path in first]
    return ExportPreview(shown, len(labelled.ids))


# ---- writers


def _write_table(exporter: Exporter, file: Path, options: ExportOptions, report: ProgressCallback) -> ExportReport:
    rows = exporter.read_rows(options.map, report)
    written = write_table(
        rows,
        file,
        report,
        excluded=options.excluded,
        absolute_paths=options.absolute_paths,
        columns=options.columns,
    )
    return ExportReport(
        file,
        f"Wrote {format_count(written.images, 'image')} to {to_printable(str(file))}.",
        details={**asdict(written), "map": rows.coordinates is not None},
    )


def _write_html(exporter: Exporter, file: Path, options: ExportOptions, report: ProgressCallback) -> ExportReport:
    method = options.map or (None if exporter.has_map() else DEFAULT_MAP_METHOD)
    rows = exporter.read_rows(method, report)
    written = write_html_map(rows, file, report, colours=exporter.load_colours())
    return ExportReport(
        file,
        f"Wrote a map of {format_count(written.images, 'image')} to {to_printable(str(file))}.",
        {"excluded or not on the map": written.left_out, "thumbnails": written.images - written.thumbnails},
        asdict(written),
    )


def _write_folders(exporter: Exporter, folder: Path, options: ExportOptions, report: ProgressCallback) -> ExportReport:
    written = write_cluster_folders(exporter.read_rows(), folder, options.links, report)
    what = format_count(written.images, *(("copy", "copies") if options.links == "copy" else ("link",)))
    return ExportReport(
        folder,
        f"Created {what} in {format_count(written.clusters, 'folder')} of {to_printable(str(folder))}.",
        {"excluded": written.excluded, "not assigned": written.not_assigned, "original not readable": written.missing},
        asdict(written),
    )


def _write_model(exporter: Exporter, file: Path, _: ExportOptions, __: ProgressCallback) -> ExportReport:
    # Imported here: importing torch takes seconds, which other formats and the start of the app do not need.
    from crlc.services.models import load_named_model
    from crlc.training.device import choose_device
    from crlc.training.model_file import save_model

    run = exporter.get_run()
    model = load_named_model(RunStore(exporter.workspace), run, choose_device("cpu"))
    with explain_write_errors(file):
        save_model(model, file)
    names = {str(number): name for number, name in model.clusters.names.items()}
    return ExportReport(
        file,
        f"Wrote the model of {read_run_title(run)} to {to_printable(str(file))}.",
        details={"clusters": model.settings.model.clusters, "names": names},
    )


def _write_labels(exporter: Exporter, file: Path, _: ExportOptions, __: ProgressCallback) -> ExportReport:
    count = write_new_text(file, lambda stream: write_label_file(exporter.dataset, exporter.annotations, stream))
    return ExportReport(
        file, f"Wrote {format_count(count, 'label')} to {to_printable(str(file))}.", details={"labels": count}
    )


# ---- previews


def _preview_table(exporter: Exporter, options: ExportOptions, limit: int) -> ExportPreview:
    """Return rows of all clusters, in the order of the file."""
    export = exporter.read_rows(options.map if options.map and exporter.has_map(options.map) else None)
    further = read_further_columns(export) if options.columns else None
    rows: list[dict[str, Any]] = []
    quota = -(-limit // max(1, len(export.clusters.numbers)))
    taken = np.zeros(export.clusters.first_new + 1, np.int64)  # the last is of images without a cluster
    count = excluded = unassigned = 0
    for chunk in export.iterate_chunks():
        is_listed = np.ones(len(chunk.ids), np.bool_) if options.excluded else ~chunk.is_excluded
        first = [
            np.flatnonzero(is_listed & (chunk.cluster == number))[: quota - taken[number]]
            for number in np.unique(chunk.cluster)
            if taken[number] < quota
        ]
        if chosen := np.sort(np.concatenate([*first, np.empty(0, np.int64)])).astype(np.int64).tolist():
            taken += np.bincount(chunk.cluster[chosen] % len(taken), minlength=len(taken))
            batch = build_record_batch(export, chunk, absolute_paths=options.absolute_paths, further=further)
            rows += batch.take(chosen).to_pylist()
        count += int(is_listed.sum())
        excluded += chunk.count_excluded()
        unassigned += int((~chunk.is_assigned).sum())
    rows = [rows[at] for at in np.linspace(0, len(rows) - 1, min(limit, len(rows))).astype(int)]
    remarks = []
    if excluded:
        how = "marked in a column" if options.excluded else "left out"
        remarks.append(f"{format_count(excluded, 'excluded image is', 'excluded images are')} {how}.")
    if unassigned:
        remarks.append(f"{format_count(unassigned, 'image')} without a cluster: added or changed after the run.")
    return ExportPreview(rows, count, tuple(remarks))


def _preview_folders(exporter: Exporter, _: ExportOptions, __: int) -> ExportPreview:
    export = exporter.read_rows()
    counts = np.zeros(export.clusters.first_new, np.int64)
    for chunk in export.iterate_chunks():
        counts += np.bincount(chunk.cluster[chunk.is_included], minlength=len(counts))
    rows = [
        {"cluster": number, "name": export.names.get(number, ""), "images": int(counts[number])}
        for number in np.flatnonzero(counts).tolist()
    ]
    return ExportPreview(rows, len(rows))


def _preview_labels(exporter: Exporter, _: ExportOptions, limit: int) -> ExportPreview:
    return preview_labels(exporter.dataset, exporter.annotations, limit)


FORMATS = {
    entry.key: entry
    for entry in (
        ExportFormat(
            "csv", "CSV table", "One row per image, for spreadsheets and scripts.",
            _write_table, _preview_table, ".csv", "text/csv", has_coordinates=True, is_table=True, has_columns=True,
        ),
        ExportFormat(
            "parquet", "Parquet table", "The same table, smaller and typed, for pandas, Polars and DuckDB.",
            _write_table, _preview_table, ".parquet", has_coordinates=True, is_table=True, has_columns=True,
        ),
        ExportFormat(
            "folders", "Folder per cluster", "Links to the original images, or copies, sorted into folders by cluster.",
            _write_folders, _preview_folders,
        ),
        ExportFormat(
            "html", "Map as a web page", "One file with the map and thumbnails that opens in any browser.",
            _write_html, _preview_table, "-map.html", "text/html", has_coordinates=True,
        ),
        ExportFormat(
            "model", "Trained model", "Assigns new images to the clusters on any computer: crlc assign MODEL PATH.",
            _write_model, None, ".crlc", needs_network=True,
        ),
        ExportFormat(
            "labels", "Labels", "Manual labels only: path and label, which can be imported again.",
            _write_labels, _preview_labels, "-labels.csv", "text/csv",
        ),
        ExportFormat(
            "imagefolder", "Hugging Face ImageFolder", "Linked or copied images with metadata.csv, for load_dataset.",
            write_image_folder_export, has_columns=True, instructions=explain_image_folder,
        ),
        ExportFormat(
            "fiftyone", "FiftyOne folder", "Linked or copied images with labels.json, for Dataset.from_dir.",
            write_fiftyone_export, has_columns=True, instructions=explain_fiftyone,
        ),
        ExportFormat(
            "label-studio", "Label Studio tasks", "Clusters as predictions and labels as annotations, to go on there.",
            write_label_studio_export, None, "-label-studio.json", "application/json",
            has_columns=True, instructions=explain_label_studio,
        ),
        ExportFormat(
            "coco", "COCO classification", "Images, categories and one annotation per image, as JSON.",
            write_coco_export, None, "-coco.json", "application/json", has_columns=True, instructions=explain_coco,
        ),
        ExportFormat(
            "vectors", "Feature vectors", "Path and vector of each image, which can be imported again.",
            write_vectors_export, None, "-vectors.parquet", instructions=explain_vectors,
        ),
        ExportFormat(
            "onnx", "ONNX model", "Backbone and heads as one graph for onnxruntime, and a script that uses it.",
            write_onnx_export, None, ".onnx", has_script=True, needs_network=True,
            instructions=explain_onnx,
        ),
    )
}  # fmt: skip
PROVISIONAL_FORMATS = {key: entry for key, entry in FORMATS.items() if not entry.needs_network and key != "labels"}
"""Formats of provisional clusters. Labels are those of the dataset: they are not exported with clusters."""

_BY_SUFFIX = {f".{entry.key}": entry for entry in FORMATS.values() if entry.suffix.endswith(f".{entry.key}")}
