"""Columns of a dataset as the CLI prints them: type, range or most frequent values, and missing values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crlc.cli.tables import format_table
from crlc.data.list_columns import DATE
from crlc.formatting import format_count
from crlc.paths import to_printable

if TYPE_CHECKING:
    from crlc.arrays import ImageIds
    from crlc.data.columns import Column, ColumnSummary
    from crlc.data.dataset import ImageDataset

_MAX_VALUE_CHARACTERS = 30
_SHOWN_FLAGGED_IMAGES = 5
"""Number of paths of blurred images that are printed, and of dark and uniform ones."""


def summarize_columns(dataset: ImageDataset) -> list[ColumnSummary]:
    """Return a summary of every column of a dataset."""
    from crlc.data.column_reader import read_all_columns
    from crlc.data.columns import QUALITY, summarize_column

    # All values of the quality are listed: uniform or dark images are usually the fewest.
    return [
        summarize_column(column, len(column.names)) if column.info.name == QUALITY else summarize_column(column)
        for column in read_all_columns(dataset)
    ]


def build_columns_content(summaries: list[ColumnSummary]) -> list[dict[str, Any]]:
    """Return the summaries for JSON; dates in ISO 8601 format."""
    return [
        {
            "name": one.info.name,
            "kind": one.info.kind,
            "origin": one.info.origin,
            "known": one.known,
            "missing": one.missing,
            "distinct": one.distinct,
            "low": _build_value(one, one.low),
            "high": _build_value(one, one.high),
            "frequent": dict(one.frequent),
        }
        for one in summaries
    ]


def format_columns(summaries: list[ColumnSummary]) -> list[str]:
    """Return the summaries as a table."""
    if not summaries:
        return []
    rows = [
        [to_printable(one.info.name), one.info.kind, _format_values(one), f"{one.missing:,}" if one.missing else "-"]
        for one in summaries
    ]
    return ["Columns:", *("  " + line for line in format_table(("name", "type", "values", "missing"), rows))]


def count_image_quality(dataset: ImageDataset, ids: ImageIds) -> dict[str, int] | None:
    """Return the number of blurred, dark, uniform and good images; `None` if the dataset has no such column."""
    column = _read_quality(dataset, ids)
    if column is None:
        return None
    return {name: int((column.values == number).sum()) for number, name in enumerate(column.names)}


def list_flagged_images(dataset: ImageDataset, ids: ImageIds) -> dict[str, list[str]]:
    """Return the paths of the blurred, dark and uniform images by flag, in the order of the ids."""
    from crlc.data.columns import GOOD
    from crlc.data.image_lookup import read_paths

    column = _read_quality(dataset, ids)
    if column is None:
        return {}
    flagged = {name: ids[column.values == number] for number, name in enumerate(column.names) if name != GOOD}
    paths = dict(read_paths(dataset, np.concatenate(list(flagged.values()))))
    return {name: [to_printable(paths[number]) for number in found.tolist()] for name, found in flagged.items()}


def _read_quality(dataset: ImageDataset, ids: ImageIds) -> Column | None:
    from crlc.data.column_reader import list_columns, read_column
    from crlc.data.columns import QUALITY

    has_quality = QUALITY in [info.name for info in list_columns(dataset) if info.origin == "pixels"]
    return read_column(dataset, QUALITY, ids) if has_quality else None


def format_image_quality(
    counts: dict[str, int] | None, flagged: dict[str, list[str]], *, has_table: bool = True
) -> list[str]:
    """Return lines about images that are blurred, dark or uniform: their number, the first ones, and how to list all.

    Args:
        counts: from `count_image_quality`.
        flagged: from `list_flagged_images`.
        has_table: whether `--images` writes a table.
    """
    if counts is None:
        return [
            "Blurred, dark and uniform images are not known. If the originals exist, import the dataset again to find "
            "them."
        ]
    from crlc.data.columns import GOOD

    bad = [f"{count:,} {name}" for name, count in counts.items() if name != GOOD and count]
    total = format_count(sum(counts.values()), "image")
    lines = [f"Image quality: {', '.join(bad) or 'none blurred, dark or uniform'} of {total}."]
    for name, paths in flagged.items():
        shown, more = paths[:_SHOWN_FLAGGED_IMAGES], len(paths) - _SHOWN_FLAGGED_IMAGES
        lines += [f"  {name}: {path}" for path in shown]
        lines += [f"  {name}: and {format_count(more, 'more image')}"] if more > 0 else []
    if any(flagged.values()):
        table = ", or --images FILE.csv for a table (column image_quality)" if has_table else ""
        lines.append(f"  To list all of them, add --json{table}.")
    return lines


def _build_value(summary: ColumnSummary, value: float | None) -> float | str | None:
    return value if value is None or summary.info.kind != DATE else summary.info.format(value).replace(" ", "T")


def _format_values(summary: ColumnSummary) -> str:
    if summary.low is not None and summary.high is not None:
        low, high = summary.info.format(summary.low), summary.info.format(summary.high)
        return low if low == high else f"{low} to {high}"
    texts = [f"{_shorten(to_printable(text))} ({count:,})" for text, count in summary.frequent]
    others = summary.distinct - len(texts)
    if others > 0:
        texts.append(format_count(others, "other value"))
    return ", ".join(texts) or "none"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARACTERS else text[: _MAX_VALUE_CHARACTERS - 1] + "…"
