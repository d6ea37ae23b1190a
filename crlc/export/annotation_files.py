"""JSON files with the categories of images for annotation tools: COCO and Label Studio."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import numpy as np

from crlc.clusters.probabilities import MISSING
from crlc.data.image_lookup import get_original_folder, read_records
from crlc.errors import UsageError
from crlc.export.categories import Categories
from crlc.export.destinations import write_new_text
from crlc.export.image_columns import ExportedColumns, read_json_values
from crlc.export.image_placing import FileSource
from crlc.export.rows import RowChunk, RunExport
from crlc.export.tables import MODEL, PERSON, read_further_columns
from crlc.progress import ProgressCallback, ProgressStage, no_progress

_CHOICES, _IMAGE = "category", "image"
"""Names of the tags in the labelling configuration of Label Studio, which every task refers to."""

_IMAGE_ID = "image_id"
_COCO_NAMES = ("id", "file_name", "width", "height", "license", "date_captured", "flickr_url", "coco_url")
"""Names that an image of a COCO file has already."""


@dataclass(frozen=True)
class AnnotationFileReport:
    """Number of images and categories in the file, and of images left out by reason."""

    images: int
    categories: int
    excluded: int
    not_assigned: int
    outside: int = 0
    """Images that are not below the folder that Label Studio serves."""


# ---- COCO


def write_coco_file(
    export: RunExport, file: Path, report: ProgressCallback = no_progress, *, columns: bool = True
) -> AnnotationFileReport:
    """Write a COCO-style classification file: images, categories, and one annotation per image without a box.

    The category is the manual label, or else the cluster, with the confidence as `score`. File names are the paths in
    the source, as `torchvision.datasets.CocoDetection(root, file)` expects. Excluded images are left out, and so are
    images with neither a label nor a cluster.

    Args:
        export: the rows of the run.
        file: path of the new file.
        report: receives progress.
        columns: add the columns of the dataset to the entries of the images.

    Raises:
        UsageError: the file exists, or its folder does not.
        CrlcError: the file cannot be written.
    """
    writer = _CocoWriter(export, read_further_columns(export, _COCO_NAMES) if columns else None)
    return write_new_text(file, lambda stream: writer.write(stream, report))


class _CocoWriter:
    """Writer of a COCO file, image by image."""

    def __init__(self, export: RunExport, columns: ExportedColumns | None) -> None:
        self._export, self._categories, self._columns = export, Categories.from_export(export), columns
        self._excluded = self._not_assigned = 0
        self._annotations: list[dict[str, Any]] = []

    def write(self, stream: TextIO, report: ProgressCallback) -> AnnotationFileReport:
        stage = ProgressStage("Writing", self._export.count_images(), report)
        categories = [{"id": number, "name": name} for number, name in enumerate(self._categories.names)]
        info = {"description": f"{self._export.dataset.name}, run {self._export.run}"}
        stream.write(f'{{"info": {json.dumps(info)},\n"categories": {json.dumps(categories)},\n"images": ')
        images = _write_list(stream, self._iterate_images(stage))
        stream.write(',\n"annotations": ')
        _write_list(stream, self._annotations)
        stream.write("}\n")
        stage.finish()
        return AnnotationFileReport(images, len(categories), self._excluded, self._not_assigned)

    def _iterate_images(self, stage: ProgressStage) -> Iterator[dict[str, Any]]:
        for chunk in self._export.iterate_chunks():
            categories = self._categories.get_final_categories(chunk)
            self._excluded += chunk.count_excluded()
            self._not_assigned += int(((categories == MISSING) & ~chunk.is_excluded).sum())
            records = read_records(self._export.dataset, chunk.ids)
            values = read_json_values(self._columns, chunk.ids)
            for row in np.flatnonzero((categories != MISSING) & ~chunk.is_excluded).tolist():
                number = int(chunk.ids[row])
                record = records[number]
                self._annotations.append(_build_coco_annotation(chunk, row, int(categories[row])))
                entry = {"id": number, "file_name": record.path, "width": record.width, "height": record.height}
                yield entry | values[row]
            stage.advance(len(chunk.ids))


def _build_coco_annotation(chunk: RowChunk, row: int, category: int) -> dict[str, Any]:
    number, is_manual = int(chunk.ids[row]), bool(chunk.is_manual[row])
    annotation = {"id": number, "image_id": number, "category_id": category, "source": PERSON if is_manual else MODEL}
    score = _get_score(chunk, row)
    return annotation if is_manual or score is None else annotation | {"score": score}


# ---- Label Studio


def write_label_studio_file(
    export: RunExport, file: Path, report: ProgressCallback = no_progress, *, columns: bool = True
) -> AnnotationFileReport:
    """Write the tasks of a Label Studio project: clusters as predictions, manual labels as annotations.

    Images are addressed through Label Studio's local storage: see `get_document_root`. Excluded images are left out.

    Args:
        export: the rows of the run.
        file: path of the new file.
        report: receives progress.
        columns: add the columns of the dataset to the data of the tasks.

    Raises:
        UsageError: the images are not single files, the file exists, or its folder does not.
        CrlcError: the file cannot be written.
    """
    taken = (_IMAGE, _IMAGE_ID)
    writer = _TaskWriter(export, read_further_columns(export, taken) if columns else None)
    return write_new_text(file, lambda stream: writer.write(stream, report))


def get_document_root(export: RunExport) -> str:
    """Return the folder that `LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT` has to be: the parent of the original images.

    Label Studio serves only folders below its document root, not the root itself.

    Raises:
        UsageError: the images are not single files.
    """
    folder = get_original_folder(export.dataset)
    if folder is None:
        raise UsageError(
            f"The images of {export.dataset.name} are not single files, so Label Studio cannot open them.",
            advice="Export folders with copies of the images, and import that folder.",
        )
    return os.path.dirname(os.path.abspath(folder))


def build_labelling_config(export: RunExport) -> str:
    """Return the labelling configuration of the Label Studio project: one choice per category."""
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in Categories.from_export(export).names)
    return (
        f'<View>\n  <Image name="{_IMAGE}" value="$image"/>\n'
        f'  <Choices name="{_CHOICES}" toName="{_IMAGE}" choice="single">\n{choices}  </Choices>\n</View>\n'
    )


class _TaskWriter:
    """Writer of Label Studio tasks."""

    def __init__(self, export: RunExport, columns: ExportedColumns | None) -> None:
        self._export, self._categories, self._columns = export, Categories.from_export(export), columns
        self._root = get_document_root(export)
        self._excluded = self._not_assigned = self._outside = 0

    def write(self, stream: TextIO, report: ProgressCallback) -> AnnotationFileReport:
        stage = ProgressStage("Writing", self._export.count_images(), report)
        images = _write_list(stream, self._iterate_tasks(stage))
        stream.write("\n")
        stage.finish()
        return AnnotationFileReport(
            images, len(self._categories.names), self._excluded, self._not_assigned, self._outside
        )

    def _iterate_tasks(self, stage: ProgressStage) -> Iterator[dict[str, Any]]:
        for chunk in self._export.iterate_chunks():
            clusters = self._categories.get_cluster_categories(chunk)
            labels = self._categories.get_label_categories(chunk)
            self._excluded += chunk.count_excluded()
            self._not_assigned += chunk.count_not_assigned()
            values = read_json_values(self._columns, chunk.ids)
            for row in np.flatnonzero(~chunk.is_excluded).tolist():
                url = self._build_url(chunk.paths[row])
                if url is not None:
                    data = {_IMAGE: url, _IMAGE_ID: int(chunk.ids[row]), **values[row]}
                    yield self._build_task(chunk, row, data, int(clusters[row]), int(labels[row]))
            stage.advance(len(chunk.ids))

    def _build_url(self, path: str) -> str | None:
        """Return the URL of an original in Label Studio, or `None` if it is outside the served folder."""
        source = self._export.dataset.source
        assert isinstance(source, FileSource)  # the constructor has checked the kind of the source
        relative = os.path.relpath(os.path.abspath(source.original(path)), self._root)
        if relative.startswith(os.pardir + os.sep):
            self._outside += 1
            return None
        return f"/data/local-files/?d={quote(relative.replace(os.sep, '/'), errors='surrogateescape')}"

    def _build_task(self, chunk: RowChunk, row: int, data: dict[str, Any], cluster: int, label: int) -> dict[str, Any]:
        task: dict[str, Any] = {"data": data}
        if cluster != MISSING:
            prediction = {"model_version": self._export.run, "result": [self._build_choice(cluster)]}
            score = _get_score(chunk, row)
            task["predictions"] = [prediction if score is None else prediction | {"score": score}]
        if label != MISSING:
            task["annotations"] = [{"result": [self._build_choice(label)]}]
        return task

    def _build_choice(self, category: int) -> dict[str, Any]:
        value = {"choices": [self._categories.names[category]]}
        return {"from_name": _CHOICES, "to_name": _IMAGE, "type": "choices", "value": value}


# ---- both


def _get_score(chunk: RowChunk, row: int) -> float | None:
    """Return the confidence of an image, or `None` if it has none."""
    confidence = float(chunk.confidence[row])
    return round(confidence, 6) if np.isfinite(confidence) else None


def _write_list(stream: TextIO, entries: Iterable[dict[str, Any]]) -> int:
    """Write a JSON list with one entry per line; return their number.

    Everything beyond ASCII is escaped, so that file names that are not valid Unicode stay lossless.
    """
    count = 0
    stream.write("[")
    for entry in entries:
        stream.write(f"{',' if count else ''}\n{json.dumps(entry)}")
        count += 1
    stream.write("\n]")
    return count
