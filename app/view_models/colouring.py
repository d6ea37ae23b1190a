"""Colourings of the points of a map: one value per image for the browser, and the legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.figures.colours import SEQUENTIAL_RAMP, UNKNOWN_COLOUR, get_colour
from app.view_models.cluster_view import ClusterView, RunView
from app.view_models.image_columns import list_view_columns, read_view_column
from crlc.data.columns import Column, ColumnInfo
from crlc.data.list_columns import TEXT
from crlc.errors import NotFoundError
from crlc.formatting import format_count
from crlc.paths import to_printable
from crlc.progress import ProgressCallback, no_progress

UNKNOWN_VALUE = 65535
_MAX_VALUE = 65534
COLOURINGS = ("cluster", "label", "class", "confidence", "agreement")
"""Properties by which points can be coloured; `agreement` is the neighbour agreement."""

COLUMN_PREFIX = "column:"
"""Prefix of the colouring by a column of the dataset: `column:camera`."""

_MAX_COLUMN_CATEGORIES = 20
"""So many categories of a column have a colour of their own; the palette repeats after twenty."""

_OTHERS_COLOUR = "#b8b8b8"
_CLIPPED_PERCENT = 1
"""The ramp ends at this percentile on both sides, so that one outlier does not take all colours."""


@dataclass(frozen=True)
class Colouring:
    """Values of all images, and the legend that explains them."""

    values: NDArray[np.uint16]
    """Number of a category, or 0 to 65,534 for a fraction from 0 to 1; 65,535 for an unknown value."""

    scale: dict[str, Any]
    """Legend for the browser: `categories` with their entries, or a `continuous` ramp."""

    def describe(self, value: int) -> str:
        """Return the text of a category in the legend."""
        return str(next((entry["text"] for entry in self.scale.get("entries", ()) if entry["value"] == value), ""))

    def get_colour(self, row: int) -> str:
        """Return the colour of the point of an image, as `points.js` draws it."""
        value = int(self.values[row])
        if value == UNKNOWN_VALUE:
            return UNKNOWN_COLOUR
        if self.scale["kind"] == "categories":
            return str(next(entry["colour"] for entry in self.scale["entries"] if entry["value"] == value))
        return _interpolate(self.scale["ramp"], value / _MAX_VALUE)


def list_colourings(view: ClusterView) -> tuple[str, ...]:
    """Return the colourings that a view has data for."""
    is_run = isinstance(view, RunView)
    possible = {
        "cluster": True,
        "label": bool(view.annotation_state.has_label(view.ids).any()),
        "class": view.classes is not None,
        "confidence": is_run,
        "agreement": is_run and len(view.ids) > 1,
    }
    return tuple(name for name in COLOURINGS if possible[name])


def has_column_colourings(view: ClusterView) -> bool:
    """Return whether points can be coloured by a column, without reading it."""
    return any(info.kind != TEXT for info in list_view_columns(view))


def list_column_colourings(view: ClusterView) -> tuple[ColumnInfo, ...]:
    """Return the columns by which points can be coloured: no free text, and those with several values first."""
    infos = [info for info in list_view_columns(view) if info.kind != TEXT]
    return tuple(sorted(infos, key=lambda info: not _has_several_values(read_view_column(view, info.name))))


def compute_colouring(view: ClusterView, by: str, report: ProgressCallback = no_progress) -> Colouring:
    """Return the values and the legend of a colouring.

    Args:
        view: the run or dataset.
        by: one of `list_colourings(view)`, or `COLUMN_PREFIX` and the name of a column.
        report: receives the progress of neighbour agreement, which is slow the first time.

    Raises:
        NotFoundError: the view has no such colouring.
    """
    if by.startswith(COLUMN_PREFIX):
        return _colour_by_column(read_view_column(view, by.removeprefix(COLUMN_PREFIX)))
    if by not in list_colourings(view):
        raise NotFoundError(f"{view.name} cannot be coloured by {by!r}. Choose one of: {', '.join(COLOURINGS)}.")
    if by == "cluster":
        return _build_categories(view.clusters, view.format_cluster, colour=view.get_colour)
    if by == "label":
        names = view.annotation_state.all_label_names
        return _build_categories(
            view.annotation_state.get_label_codes(view.ids), lambda number: names[number], "not labelled"
        )
    if by == "class":
        assert view.classes is not None
        class_names, numbers = view.classes
        return _build_categories(numbers, lambda number: class_names[number], "class not known")
    assert isinstance(view, RunView)
    if by == "confidence":
        assert view.confidence is not None
        return _build_continuous(view.confidence, "confidence")
    return _build_continuous(view.compute_quality(report).images.neighbour_agreement, "neighbour agreement")


def _has_several_values(column: Column) -> bool:
    known = column.values[column.is_known]
    return len(known) > 0 and bool((known != known[0]).any())


def _colour_by_column(column: Column) -> Colouring:
    if column.info.is_coded:
        return _colour_by_category(column)
    known = column.values[column.is_known]
    low, high = np.percentile(known, (_CLIPPED_PERCENT, 100 - _CLIPPED_PERCENT)) if len(known) else (0.0, 0.0)
    if low == high and len(known):
        low, high = known.min(), known.max()
    colouring = _build_continuous((column.values - low) / ((high - low) or 1.0), column.info.title)
    below, above = ("≤ " * bool((known < low).any()), "≥ " * bool((known > high).any()))
    first, last = column.info.format_range(float(low), float(high))
    ends = {"low": to_printable(f"{column.info.title} {below}{first}"), "high": above + last}
    return Colouring(colouring.values, {**colouring.scale, **ends})


def _colour_by_category(column: Column) -> Colouring:
    """Number the categories by frequency, so that the frequent ones have colours of their own."""
    counts = np.bincount(column.values[column.is_known], minlength=len(column.names))
    order = np.argsort(-counts, kind="stable")
    others = int((counts[order[_MAX_COLUMN_CATEGORIES:]] > 0).sum())
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order] = np.minimum(np.arange(len(order)), _MAX_COLUMN_CATEGORIES)
    ranks[-1] = -1

    def get_text(number: int) -> str:
        return format_count(others, "other value") if number == _MAX_COLUMN_CATEGORIES else column.names[order[number]]

    def choose_colour(number: int) -> str:
        return _OTHERS_COLOUR if number == _MAX_COLUMN_CATEGORIES else get_colour(number)

    return _build_categories(ranks[column.values], get_text, f"no {column.info.title.lower()}", choose_colour)


def _interpolate(ramp: Sequence[str], fraction: float) -> str:
    """Return the colour at a fraction from 0 to 1 of a ramp of hexadecimal colours."""
    at = fraction * (len(ramp) - 1)
    first = min(int(at), len(ramp) - 2)
    low, high = (bytes.fromhex(colour[1:]) for colour in ramp[first : first + 2])
    mixed = (round(one + (two - one) * (at - first)) for one, two in zip(low, high, strict=True))
    return "#" + bytes(mixed).hex()


def _build_categories(
    numbers: NDArray[np.int64],
    text: Callable[[int], str],
    without: str = "",
    colour: Callable[[int], str] = get_colour,
) -> Colouring:
    values = np.where(numbers < 0, UNKNOWN_VALUE, np.minimum(numbers, _MAX_VALUE)).astype(np.uint16)
    found, counts = np.unique(numbers, return_counts=True)
    entries = [
        {
            "value": UNKNOWN_VALUE if number < 0 else min(number, _MAX_VALUE),
            "text": without if number < 0 else to_printable(text(number)),
            "count": count,
            "colour": UNKNOWN_COLOUR if number < 0 else colour(number),
        }
        for number, count in zip(found.tolist(), counts.tolist(), strict=True)
    ]
    entries.sort(key=lambda entry: entry["value"])  # the entry without a value comes last
    return Colouring(values, {"kind": "categories", "entries": entries})


def _build_continuous(fractions: NDArray[np.floating], title: str) -> Colouring:
    known = np.isfinite(fractions)
    scaled = np.rint(np.clip(np.nan_to_num(fractions), 0, 1) * _MAX_VALUE)
    values = np.where(known, scaled, UNKNOWN_VALUE).astype(np.uint16)
    scale = {
        "kind": "continuous",
        "ramp": list(SEQUENTIAL_RAMP),
        "low": f"{title} 0%",
        "high": "100%",
        "title": title,
    }
    return Colouring(values, scale)
