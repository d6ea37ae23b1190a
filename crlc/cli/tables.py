"""Tables, numbers and image paths as the CLI prints them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from crlc.formatting import format_count
from crlc.paths import to_printable

if TYPE_CHECKING:
    from crlc.data.dataset import ImageDataset
    from crlc.services.analyse_run import RunAnalysis

_JSON_DECIMALS = 6
_NUMBER = re.compile(r"-|[-+]?\d[\d,]*(\.\d+)?%?(/\d[\d,]*)?")
"""A cell of a column of numbers: `-`, `1,000`, `0.25`, `5%` or `3/10`; not a path or name that starts with a digit."""


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return aligned columns as lines of text; columns of numbers and `-` are right-aligned.

    Args:
        header: title of each column.
        rows: cells of each row, as many as titles.
    """
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [bool(rows) and all(_NUMBER.fullmatch(cell) for cell in column[1:]) for column in columns]

    def line(cells: Sequence[str]) -> str:
        padded = (
            f"{cell:>{width}}" if is_numeric else f"{cell:<{width}}"
            for cell, width, is_numeric in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    return [line(header), *map(line, rows)]


def read_printable_paths(dataset: ImageDataset, ids: Iterable[Any]) -> dict[int, str]:
    """Return the path of each image by id, in the order of the ids; an unknown image has an empty path."""
    import numpy as np

    from crlc.data.image_lookup import read_paths

    image_ids = np.array([int(number) for number in ids], np.int64)
    found = {number: to_printable(path) for number, path in read_paths(dataset, image_ids)} if len(image_ids) else {}
    return {number: found.get(number, "") for number in image_ids.tolist()}


def round_number(value: Any) -> float | None:
    """Round a number for JSON; `None` for `None` and NaN."""
    return None if value is None or math.isnan(value) else round(float(value), _JSON_DECIMALS)


def format_number(value: Any) -> str:
    """Format a number with three decimals; `-` for `None` and NaN."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"


def format_cluster_cell(analysis: RunAnalysis, cluster: int) -> str:
    """Return the number of a cluster, followed by its name if it has one."""
    name = analysis.names.get(cluster)
    return str(cluster) if name is None else f"{cluster} {name}"


def format_left_out(analysis: RunAnalysis) -> list[str]:
    """Return a line about the images that the analysis leaves out; an empty list if there are none."""
    excluded = int(analysis.annotations.is_excluded(analysis.clustering.ids).sum())
    removed = len(analysis.all_z) - len(analysis.clustering.ids)
    parts = [f"{format_count(removed, 'image')} removed or changed since the run"] if removed else []
    parts += [format_count(excluded, "excluded image")] if excluded else []
    return [f"Left out: {', '.join(parts)}."] if parts else []
