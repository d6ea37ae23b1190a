"""What analysis says of each image of a run, as CSV: to sort and filter elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING

from crlc.errors import UsageError
from crlc.files import write_new_file
from crlc.names import printable, spreadsheet_safe
from crlc.workspace.export.places import require_new_file, trouble_explained
from crlc.workspace.image_lookup import paths_of

if TYPE_CHECKING:
    import pyarrow

    from crlc.workspace.run_analysis import RunAnalysis

FIGURES = (
    "confidence",
    "margin",
    "neighbour_agreement",
    "subhead_agreement",
    "silhouette",
    "typicality",
    "outlier",
)
"""Columns that are what `ImageQuality` calls so."""


def require_quality_file(file: Path) -> None:
    """Refuse a name before the work is done.

    Raises:
        UsageError: it has another ending, exists already, or is in a folder that is not there.
    """
    if file.suffix.lower() != ".csv":
        raise UsageError(f"{printable(str(file))} is no kind of table that can be written: choose .csv.")
    require_new_file(file)


def write_quality(analysis: RunAnalysis, file: Path) -> int:
    """Write one line for each image that counts, in order of id; returns how many.

    Raises:
        UsageError: the file exists already, or is no CSV file.
        CrlcError: it cannot be written.
    """
    require_quality_file(file)
    table = _table(analysis)

    def write(stream: IO[bytes]) -> None:
        from pyarrow import csv

        stream.write((",".join(table.column_names) + "\n").encode())
        csv.write_csv(table, stream, csv.WriteOptions(include_header=False))

    with trouble_explained(file):
        write_new_file(file, write)
    return len(analysis.ids)


def _table(analysis: RunAnalysis) -> pyarrow.Table:
    import pyarrow as pa

    quality = analysis.quality().images
    paths = dict(paths_of(analysis.dataset, analysis.ids))
    names = {number: spreadsheet_safe(name) for number, name in analysis.names.items()}
    columns = {
        "path": pa.array(
            [spreadsheet_safe(printable(paths.get(number, ""))) for number in analysis.ids.tolist()], pa.string()
        ),
        "cluster": pa.array(analysis.clusters),
        "cluster_name": pa.array([names.get(number) for number in analysis.clusters.tolist()], pa.string()),
    }
    for figure in FIGURES:
        values = getattr(quality, figure)
        columns[figure] = (
            pa.nulls(len(analysis.ids), pa.float32()) if values is None else pa.array(values, pa.float32())
        )
    return pa.table({**columns, "image_id": pa.array(analysis.ids)})
