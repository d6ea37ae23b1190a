"""Export of the map of a run as one self-contained web page with points, names and thumbnails."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.cluster_colours import PALETTE, extend_colours
from crlc.data.thumbnails import make_thumbnail
from crlc.errors import CrlcError, UsageError
from crlc.export.destinations import explain_write_errors, require_new_file
from crlc.export.rows import RowChunk, RunExport
from crlc.export.scatter_map import read_map_script, read_map_style
from crlc.files import write_new_file
from crlc.paths import to_printable
from crlc.progress import ProgressCallback, ProgressStage, no_progress

MAX_THUMBNAILS = 20_000
"""Pages with more images have points only: with thumbnails they would be too large to open."""

_MAX_LARGE_THUMBNAILS = 5_000
_LARGE_PIXELS, _SMALL_PIXELS = 80, 40
"""Longest side of the thumbnails of pages with up to `_MAX_LARGE_THUMBNAILS` images, and with more."""

_POINTS_PER_PART = 1_000


@dataclass(frozen=True)
class HtmlMapReport:
    """Number of images and thumbnails on the page."""

    images: int
    thumbnails: int
    left_out: int
    """Number of images that are excluded or not on the map."""


def write_html_map(
    export: RunExport, file: Path, report: ProgressCallback = no_progress, *, colours: Sequence[int] = ()
) -> HtmlMapReport:
    """Write the map as a new HTML file. After an error, no file is left behind.

    Args:
        export: the rows of the run, with map coordinates.
        file: path of the new file.
        report: receives progress.
        colours: palette index of each cluster, from `load_or_assign_colours`; empty for the order of the palette.

    Raises:
        UsageError: the run has no map, or the file exists.
        CrlcError: the file cannot be written.
    """
    require_new_file(file)
    if export.coordinates is None:
        raise UsageError(f"The run {export.run} has no map yet.", advice="Compute one first.")
    with explain_write_errors(file):
        counts = _count_by_cluster(export)
        result: list[HtmlMapReport] = []
        write_new_file(file, lambda stream: result.append(_write(export, counts, colours, stream, report)))
    return result[0]


def _count_by_cluster(export: RunExport) -> dict[int, int]:
    """Return the number of images on the map by cluster."""
    counts = np.zeros(export.clusters.first_new, np.int64)
    for chunk in export.iterate_chunks():
        counts += np.bincount(chunk.cluster[_find_shown_rows(chunk)], minlength=len(counts))
    return {number: int(counts[number]) for number in np.flatnonzero(counts).tolist()}


def _find_shown_rows(chunk: RowChunk) -> NDArray[np.int64]:
    return np.flatnonzero(chunk.is_on_map & ~chunk.is_excluded)


def _write(
    export: RunExport, counts: dict[int, int], colours: Sequence[int], stream: IO[bytes], report: ProgressCallback
) -> HtmlMapReport:
    total = sum(counts.values())
    side = _choose_thumbnail_side(total)
    note = f"No thumbnails: there are more than {MAX_THUMBNAILS:,} images." if side is None else ""
    all_colours = extend_colours(tuple(colours), export.clusters.first_new)
    clusters = [
        {
            "number": number,
            "name": export.names.get(number),
            "images": counts[number],
            "colour": PALETTE[all_colours[number]],
        }
        for number in counts
    ]
    about = {"dataset": export.dataset.name, "run": export.run, "note": note, "clusters": clusters}
    page = (files(__package__) / "map_page.html").read_text(encoding="utf-8")
    for mark, text in (
        ("<!--title-->", html.escape(f"Map of {export.run}")),
        ("<!--style-->", read_map_style()),
        ("<!--map-->", read_map_script()),
    ):
        page = page.replace(mark, text)
    before, after = page.split("<!--data-->")
    stream.write(before.encode())
    stream.write(_format_script("about", about))
    stage = ProgressStage("Writing", total, report)
    images = left_out = thumbnails = 0
    for chunk in export.iterate_chunks():
        rows = _find_shown_rows(chunk)
        left_out += len(chunk.ids) - len(rows)
        for start in range(0, len(rows), _POINTS_PER_PART):
            part = _build_part(export, chunk, rows[start : start + _POINTS_PER_PART], side)
            stream.write(_format_script("part", part))
            images += len(part["x"])
            thumbnails += sum(thumbnail is not None for thumbnail in part.get("thumbnail", ()))
            stage.advance(len(part["x"]))
    stage.finish()
    stream.write(after.encode())
    return HtmlMapReport(images, thumbnails, left_out)


def _build_part(
    export: RunExport, chunk: RowChunk, rows: NDArray[np.int64], side: int | None
) -> dict[str, list[float] | list[int] | list[str | None]]:
    """Return the points of the given rows as one list per property; `side` is that of thumbnails, if there are any."""
    chosen = rows.tolist()
    part: dict[str, Any] = {
        "x": np.round(chunk.coordinates[rows, 0].astype(np.float64), 4).tolist(),
        "y": np.round(chunk.coordinates[rows, 1].astype(np.float64), 4).tolist(),
        "cluster": chunk.cluster[rows].tolist(),
        "confidence": [None if math.isnan(value) else round(value, 3) for value in chunk.confidence[rows].tolist()],
        "path": [to_printable(chunk.paths[row]) for row in chosen],
        "label": [chunk.labels[row] for row in chosen],
        "class": [chunk.classes[row] for row in chosen],
    }
    if side is not None:
        part["thumbnail"] = [_encode_thumbnail(export, int(number), side) for number in chunk.ids[rows]]
    return part


def _choose_thumbnail_side(images: int) -> int | None:
    """Return the longest side of thumbnails in pixels; `None` if there are too many images."""
    if images > MAX_THUMBNAILS:
        return None
    return _LARGE_PIXELS if images <= _MAX_LARGE_THUMBNAILS else _SMALL_PIXELS


def _encode_thumbnail(export: RunExport, image_id: int, side: int) -> str | None:
    """Return a thumbnail as a data URI, or `None` if neither the original image nor its pixels exist."""
    try:
        thumbnail = make_thumbnail(export.dataset, image_id, side, is_small_file=True)
    except CrlcError:
        return None
    return f"data:{thumbnail.media_type};base64,{base64.b64encode(thumbnail.content).decode('ascii')}"


def _format_script(kind: str, content: dict[str, Any]) -> bytes:
    """Return JSON as an HTML script element; <, > and & are escaped, so that no text can end the element."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" class="{kind}">{text}</script>\n'.encode("ascii")
