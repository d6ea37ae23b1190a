"""The map of a run as one page that needs nothing else: points, names, thumbnails and the code that draws them."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.colour_slots import extended_slots
from crlc.analysis.palette import DISTINCT
from crlc.data.thumbnails import thumbnail
from crlc.errors import CrlcError, UsageError
from crlc.files import write_new_file
from crlc.names import printable
from crlc.progress import ProgressCallback, Stage, no_progress
from crlc.workspace.export.places import require_new_file, trouble_explained
from crlc.workspace.export.rows import Chunk, RunExport

MOST_THUMBNAILS = 5_000
"""With more the page would be too large to open at once: then there are points only."""
_SIDE = 80
_PART = 1_000
"""Points written at once."""


@dataclass(frozen=True)
class MapReport:
    """What is on the page."""

    images: int
    thumbnails: int
    left_out: int
    """Excluded, or not on the map."""


def write_html_map(
    export: RunExport, file: Path, report: ProgressCallback = no_progress, *, slots: Sequence[int] = ()
) -> MapReport:
    """Write the page; it is there whole or not at all.

    Args:
        export: what is on it.
        file: where.
        report: told how far it is.
        slots: the colours that the run's clusters have elsewhere (`run_colours`); by default in their order.

    Raises:
        UsageError: there is no map, or the file exists already.
        CrlcError: it cannot be written.
    """
    require_new_file(file)
    if export.places is None:
        raise UsageError(f"The run {export.run} has no map yet. Compute one first.")
    with trouble_explained(file):
        counts = _count(export)
        result: list[MapReport] = []
        write_new_file(file, lambda stream: result.append(_write(export, counts, slots, stream, report)))
    return result[0]


def _count(export: RunExport) -> dict[int, int]:
    """Images on the map by cluster."""
    counts = np.zeros(export.clusters.first_new, np.int64)
    for chunk in export.chunks():
        counts += np.bincount(chunk.cluster[_shown(chunk)], minlength=len(counts))
    return {number: int(counts[number]) for number in np.flatnonzero(counts).tolist()}


def _shown(chunk: Chunk) -> NDArray[np.int64]:
    return np.flatnonzero(chunk.placed & ~chunk.excluded)


def _write(
    export: RunExport, counts: dict[int, int], slots: Sequence[int], stream: IO[bytes], report: ProgressCallback
) -> MapReport:
    from plotly.offline import get_plotlyjs

    total = sum(counts.values())
    with_pictures = total <= MOST_THUMBNAILS
    note = "" if with_pictures else f"Without pictures, as there are more than {MOST_THUMBNAILS:,} images."
    all_slots = extended_slots(tuple(slots), export.clusters.first_new)
    clusters = [
        {
            "number": number,
            "name": export.names.get(number),
            "images": counts[number],
            "colour": DISTINCT[all_slots[number]],
        }
        for number in counts
    ]
    about = {"dataset": export.dataset.name, "run": export.run, "note": note, "clusters": clusters}
    page = (files(__package__) / "map_page.html").read_text(encoding="utf-8")
    title, library, data = "<!--title-->", "<!--plotly-->", "<!--data-->"
    before, rest = page.replace(title, html.escape(f"Map of {export.run}")).split(library)
    between, after = rest.split(data)
    for text in (before, f"<script>{get_plotlyjs()}</script>", between):
        stream.write(text.encode())
    stream.write(_as_script("about", about))
    stage = Stage("Writing", total, report)
    images = left_out = thumbnails = 0
    for chunk in export.chunks():
        rows = _shown(chunk)
        left_out += len(chunk.ids) - len(rows)
        for start in range(0, len(rows), _PART):
            part = _part(export, chunk, rows[start : start + _PART], with_pictures=with_pictures)
            stream.write(_as_script("part", part))
            images += len(part["x"])
            thumbnails += sum(picture is not None for picture in part.get("picture", ()))
            stage.advance(len(part["x"]))
    stage.finish()
    stream.write(after.encode())
    return MapReport(images, thumbnails, left_out)


def _part(
    export: RunExport, chunk: Chunk, rows: NDArray[np.int64], *, with_pictures: bool
) -> dict[str, list[float] | list[int] | list[str | None]]:
    """Some points, a list for each property."""
    chosen = rows.tolist()
    part: dict[str, Any] = {
        "x": np.round(chunk.places[rows, 0].astype(np.float64), 4).tolist(),
        "y": np.round(chunk.places[rows, 1].astype(np.float64), 4).tolist(),
        "cluster": chunk.cluster[rows].tolist(),
        "confidence": np.round(chunk.confidence[rows].astype(np.float64), 3).tolist(),
        "path": [printable(chunk.paths[row]) for row in chosen],
        "label": [chunk.labels[row] for row in chosen],
        "class": [chunk.classes[row] for row in chosen],
    }
    if with_pictures:
        part["picture"] = [_picture(export, int(number)) for number in chunk.ids[rows]]
    return part


def _picture(export: RunExport, image_id: int) -> str | None:
    """A thumbnail as a data URI; none when neither original nor pixels are there."""
    try:
        picture = thumbnail(export.dataset, image_id, _SIDE)
    except CrlcError:
        return None
    return f"data:{picture.media_type};base64,{base64.b64encode(picture.content).decode('ascii')}"


def _as_script(kind: str, content: dict[str, Any]) -> bytes:
    """JSON inside a page: no text in it can end the element, or begin another."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" class="{kind}">{text}</script>\n'.encode("ascii")
