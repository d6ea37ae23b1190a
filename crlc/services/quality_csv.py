"""Export of the quality metrics of each image as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING

from crlc.data.column_reader import list_columns, read_column
from crlc.data.columns import Column
from crlc.data.image_lookup import read_paths
from crlc.errors import UsageError
from crlc.export.destinations import explain_write_errors, require_new_file
from crlc.files import write_new_file
from crlc.paths import escape_formula, to_printable

if TYPE_CHECKING:
    import pyarrow

    from crlc.services.analyse_run import RunAnalysis

IMAGE_QUALITY = "image_quality"
"""Column with the flag of blurred, dark and uniform images; brightness, contrast and sharpness follow it."""

METRIC_COLUMNS = {
    "confidence": "confidence",
    "margin": "margin",
    "neighbour_agreement": "neighbour_agreement",
    "subhead_agreement": "subhead_agreement",
    "silhouette": "silhouette",
    "typicality": "typicality",
    "outlier": "outlier_score",
}
"""Columns of the table, each with the field of `ImageQuality` that it contains."""


def check_quality_file(file: Path) -> None:
    """Check a destination before the metrics are computed.

    Raises:
        UsageError: the file is not a .csv file, exists already, or its folder does not exist.
    """
    if file.suffix.lower() != ".csv":
        raise UsageError(f"{to_printable(str(file))} is not allowed: the file must end in .csv.")
    require_new_file(file)


def write_quality_csv(analysis: RunAnalysis, file: Path) -> int:
    """Write one row per image of the analysis, ordered by id, and return the number of rows.

    Raises:
        UsageError: the file is not a .csv file, or exists already.
        CrlcError: the file cannot be written.
    """
    check_quality_file(file)
    table = _build_table(analysis)

    def write(stream: IO[bytes]) -> None:
        from pyarrow import csv

        stream.write((",".join(table.column_names) + "\n").encode())
        csv.write_csv(table, stream, csv.WriteOptions(include_header=False))

    with explain_write_errors(file):
        write_new_file(file, write)
    return len(analysis.ids)


def _build_table(analysis: RunAnalysis) -> pyarrow.Table:
    import pyarrow as pa

    quality = analysis.compute_quality().images
    paths = dict(read_paths(analysis.dataset, analysis.ids))
    names = {number: escape_formula(name) for number, name in analysis.names.items()}
    columns = {
        "path": pa.array(
            [escape_formula(to_printable(paths.get(number, ""))) for number in analysis.ids.tolist()], pa.string()
        ),
        "cluster": pa.array(analysis.clusters),
        "cluster_name": pa.array([names.get(number) for number in analysis.clusters.tolist()], pa.string()),
    }
    for column, metric in METRIC_COLUMNS.items():
        values = getattr(quality, metric)
        columns[column] = (
            pa.nulls(len(analysis.ids), pa.float32()) if values is None else pa.array(values, pa.float32())
        )
    for measured in _read_pixel_columns(analysis):
        if measured.info.is_coded:
            indices = pa.array(measured.values, mask=~measured.is_known)
            columns[IMAGE_QUALITY] = pa.array(measured.names, pa.string()).take(indices)
        else:
            columns[measured.info.name] = pa.array(measured.values, pa.float32(), mask=~measured.is_known)
    return pa.table({**columns, "image_id": pa.array(analysis.ids)})


def _read_pixel_columns(analysis: RunAnalysis) -> list[Column]:
    """Return the columns about the pixels; none if the dataset was imported by an earlier version."""
    infos = list_columns(analysis.dataset)
    return [read_column(analysis.dataset, info.name, analysis.ids) for info in infos if info.origin == "pixels"]
