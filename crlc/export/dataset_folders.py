"""Folders of linked or copied images that other tools load: Hugging Face datasets (ImageFolder) and FiftyOne.

Images are called by cluster number and image id, such as `03/00000017.jpg`. Names of clusters and originals are not
used for files: Hugging Face takes a folder such as `03-test` for a split, and FiftyOne ignores suffixes, so that
`a.jpg` and `a.png` would be one image. Both names are in the metadata.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crlc.export.categories import Categories
from crlc.export.image_columns import ExportedColumns, read_json_values
from crlc.export.image_placing import ImagePlacer, build_new_folder, make_placer, require_readable_originals
from crlc.export.rows import RowChunk, RunExport
from crlc.export.tables import ALL_COLUMNS, MODEL, PERSON, build_record_batch, read_further_columns
from crlc.paths import to_printable
from crlc.progress import ProgressCallback, ProgressStage, no_progress

if TYPE_CHECKING:
    import pyarrow

METADATA_FILE, LARGE_METADATA_FILE = "metadata.csv", "metadata.parquet"
MAX_CSV_IMAGES = 10_000
"""Hugging Face datasets takes the types of a CSV file from its first 10,000 rows, and fails if later ones differ: a
label in row 10,001. Larger exports are written as Parquet."""

LABELS_FILE = "labels.json"
DATA_FOLDER = "data"
FILE_NAME = "file_name"
"""Column of the metadata by which Hugging Face datasets finds the image."""

_IMAGE = "image"
"""Name that Hugging Face datasets gives to the column of images."""

_FIFTYONE_NAMES = (
    "self", "label", "confidence", "id", "tags", "logits", "attributes",
    "cluster", "source", "path", "image_id", "ground_truth",
)  # fmt: skip
"""Names that a label of FiftyOne has already."""

_ID_DIGITS = 8
_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".jp2", ".avif", ".heic")
_DEFAULT_SUFFIX = ".png"
"""Suffix of originals with another or no suffix: tools list images by suffix, and decode them by content."""


@dataclass(frozen=True)
class DatasetFolderReport:
    """Number of images in the export, and of those left out by reason."""

    images: int
    excluded: int
    not_assigned: int
    missing: int
    """Original images that do not exist or cannot be read."""


def write_image_folder(
    export: RunExport,
    folder: Path,
    kind: str = "absolute",
    report: ProgressCallback = no_progress,
    *,
    columns: bool = True,
) -> DatasetFolderReport:
    """Create a folder that `datasets.load_dataset("imagefolder", data_dir=folder)` loads.

    `metadata.csv` has the columns of exported tables; beyond `MAX_CSV_IMAGES` images, it is `metadata.parquet`.
    Excluded images and images without a cluster are left out.

    Args:
        export: the rows of the run.
        folder: path of the new folder, which must not exist or must be empty.
        kind: `absolute` or `relative` links, or `copy`.
        report: receives progress.
        columns: add the columns of the dataset, such as dates and those of an imported list.

    Raises:
        UsageError: the folder is not empty, or the images are not files that can be linked to.
        SourceError: the original images were moved or deleted, or none of them can be read.
        CrlcError: the folder cannot be written.
    """
    from pyarrow import csv, parquet

    is_large = export.count_images() > MAX_CSV_IMAGES
    create_writer = parquet.ParquetWriter if is_large else csv.CSVWriter
    further = _read_metadata_columns(export) if columns else None

    def add_metadata(building: Path, created: Iterator[tuple[RowChunk, dict[int, str]]]) -> None:
        writer = None
        with (building / (LARGE_METADATA_FILE if is_large else METADATA_FILE)).open("xb") as stream:
            for chunk, names in created:
                batch = _build_metadata(export, chunk, names, further)
                writer = writer or create_writer(stream, batch.schema)
                writer.write_batch(batch)
            if writer is None:
                stream.write(f"{FILE_NAME}\n".encode())
            else:
                writer.close()

    return _write_folder(export, folder, kind, report, "", add_metadata)


def _read_metadata_columns(export: RunExport) -> ExportedColumns:
    """Read the columns of the dataset. A name such as `x_file_name` is changed: Hugging Face loads it as images."""
    return read_further_columns(
        export, (*ALL_COLUMNS, FILE_NAME, _IMAGE), lambda name: re.sub(r"_file_name(?=s?$)", "_filename", name)
    )


def _build_metadata(
    export: RunExport, chunk: RowChunk, names: dict[int, str], further: ExportedColumns | None
) -> pyarrow.RecordBatch:
    """Return the metadata of the created images. Texts are not escaped for spreadsheets: programs read them."""
    import pyarrow as pa

    batch = build_record_batch(export, chunk, further=further).take(pa.array(list(names), pa.int64()))
    return pa.RecordBatch.from_arrays(
        [pa.array(list(names.values()), pa.string()), *batch.columns], [FILE_NAME, *batch.schema.names]
    )


def write_fiftyone_folder(
    export: RunExport,
    folder: Path,
    kind: str = "absolute",
    report: ProgressCallback = no_progress,
    *,
    columns: bool = True,
) -> DatasetFolderReport:
    """Create a folder that FiftyOne loads with the type `FiftyOneImageClassificationDataset`.

    Each image has one label: the manual one, or else the name of its cluster with the confidence. Excluded images and
    images without a cluster are left out.

    Args:
        export: the rows of the run.
        folder: path of the new folder, which must not exist or must be empty.
        kind: `absolute` or `relative` links, or `copy`.
        report: receives progress.
        columns: add the columns of the dataset as attributes of the labels.

    Raises:
        UsageError: the folder is not empty, or the images are not files that can be linked to.
        SourceError: the original images were moved or deleted, or none of them can be read.
        CrlcError: the folder cannot be written.
    """
    further = read_further_columns(export, _FIFTYONE_NAMES, _adapt_to_fiftyone) if columns else None
    categories = Categories.from_export(export)

    def add_labels(building: Path, created: Iterator[tuple[RowChunk, dict[int, str]]]) -> None:
        with (building / LABELS_FILE).open("x", encoding="utf-8") as stream:
            stream.write(f'{{"classes": {json.dumps(categories.names)}, "labels": {{')
            separator = "\n"
            for chunk, names in created:
                final = categories.get_final_categories(chunk)
                values = read_json_values(further, chunk.ids)
                for row, name in names.items():
                    entry = json.dumps(_build_classification(chunk, row, int(final[row]), values[row]))
                    stream.write(f"{separator}{json.dumps(os.path.splitext(name)[0])}: {entry}")
                    separator = ",\n"
            stream.write("\n}}\n")

    return _write_folder(export, folder, kind, report, DATA_FOLDER, add_labels)


def _adapt_to_fiftyone(name: str) -> str:
    """Return a name of a column that MongoDB and Python accept as the name of a field."""
    return re.sub(r"\W+", "_", name).strip("_") or "column"


def _build_classification(chunk: RowChunk, row: int, category: int, values: dict[str, Any]) -> dict[str, object]:
    is_manual = bool(chunk.is_manual[row])
    attributes: dict[str, object] = {
        "cluster": int(chunk.cluster[row]),
        "source": PERSON if is_manual else MODEL,
        "path": to_printable(chunk.paths[row]),
        "image_id": int(chunk.ids[row]),
    }
    if chunk.classes[row] is not None:
        attributes["ground_truth"] = chunk.classes[row]
    entry: dict[str, object] = {"label": category, "attributes": attributes | values}
    if not is_manual and np.isfinite(chunk.confidence[row]):
        entry["confidence"] = round(float(chunk.confidence[row]), 6)
    return entry


def _write_folder(
    export: RunExport,
    folder: Path,
    kind: str,
    report: ProgressCallback,
    image_folder: str,
    write_metadata: Callable[[Path, Iterator[tuple[RowChunk, dict[int, str]]]], None],
) -> DatasetFolderReport:
    """Create the images below `image_folder`; `write_metadata` receives the name of each created image by row."""
    placer = make_placer(export.dataset, kind)
    with build_new_folder(folder, export.dataset) as building:
        builder = _ImageBuilder(export, building / image_folder, placer)
        write_metadata(building, builder.iterate_created(report))
        require_readable_originals(export.dataset, builder.images, builder.missing)
        return DatasetFolderReport(builder.images, builder.excluded, builder.not_assigned, builder.missing)


class _ImageBuilder:
    """Creates the images of an export, and counts them."""

    def __init__(self, export: RunExport, folder: Path, placer: ImagePlacer) -> None:
        self._export, self._folder, self._placer = export, folder, placer
        self._digits = len(str(export.clusters.numbers[-1]))
        self.images = self.excluded = self.not_assigned = self.missing = 0

    def iterate_created(self, report: ProgressCallback) -> Iterator[tuple[RowChunk, dict[int, str]]]:
        """Create the images chunk by chunk; yield each chunk with the names of its created images by row."""
        self._folder.mkdir(exist_ok=True)
        stage = ProgressStage(self._placer.stage, self._export.count_images(), report)
        for chunk in self._export.iterate_chunks():
            self.excluded += chunk.count_excluded()
            self.not_assigned += chunk.count_not_assigned()
            names: dict[int, str] = {}
            for row in np.flatnonzero(chunk.is_included).tolist():
                created = self._create(chunk, row)
                if created is None:
                    self.missing += 1
                else:
                    names[row] = created
            self.images += len(names)
            stage.advance(len(chunk.ids))
            yield chunk, names
        stage.finish()

    def _create(self, chunk: RowChunk, row: int) -> str | None:
        """Create one image; return its path below the folder of the images, or `None` if it cannot be read."""
        folder = self._folder / f"{int(chunk.cluster[row]):0{self._digits}}"
        folder.mkdir(exist_ok=True)
        suffix = os.path.splitext(chunk.paths[row])[1].lower()
        name = f"{int(chunk.ids[row]):0{_ID_DIGITS}}{suffix if suffix in _IMAGE_SUFFIXES else _DEFAULT_SUFFIX}"
        created = self._placer.put(chunk.paths[row], folder / name)
        return None if created is None else f"{folder.name}/{created.name}"
