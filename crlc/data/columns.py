"""Columns of a dataset: typed values of every image, from its file, its EXIF block, its pixels and a CSV list.

This module has their types, texts and summaries; `column_reader` reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.arrays import BoolArray, DoubleArray, ImageIds, IntArray
from crlc.data.list_columns import CATEGORY, DATE, NUMBER, TEXT
from crlc.formatting import format_bytes

QUALITY, FOLDER, FILE_DATE, FILE_SIZE = "quality", "folder", "file_date", "file_size"
GOOD, BLURRED, DARK, UNIFORM = "good", "blurred", "dark", "uniform"
"""Values of the column `quality`."""

MAX_UNIFORM_CONTRAST = 2.0
"""An image is uniform if the contrast is at most this many percent: paper, a wall, a lens cap."""

MAX_DARK_BRIGHTNESS, MAX_DARK_CONTRAST = 12.0, 10.0
"""An image is dark if brightness and contrast are at most this many percent: lights at night add contrast."""

MAX_BLURRED_SHARPNESS = 0.15
"""An image is blurred if the sharpness is at most this.

Of photographs that were blurred with a radius of 2 px at 160 px, 95 to 98 % are below; of the originals, 0.1 %.
"""

LIST_PREFIX = "list_"
"""Prefix of a column of a CSV list whose name has another meaning already."""

_SECONDS_PER_DAY = 86_400
_DAYS_WITHOUT_TIME = 3
_MANY_DIGITS = 1e15


@dataclass(frozen=True)
class ColumnInfo:
    """Name, type and origin of a column."""

    name: str
    kind: str
    """`number`, `date`, `category` or `text`."""

    origin: str
    """`exif`, `file`, `pixels` or `list`."""

    unit: str = ""
    description: str = ""

    @property
    def title(self) -> str:
        """Name for the screen: a column of a list keeps the name that the user gave it."""
        return self.name if self.origin == "list" else self.name.replace("_", " ").capitalize()

    @property
    def is_coded(self) -> bool:
        """Whether the values are texts: categories or free text."""
        return self.kind in (CATEGORY, TEXT)

    def format_range(self, low: float, high: float) -> tuple[str, str]:
        """Return both ends of a range as text; a range of some days without the time of day."""
        if self.kind == DATE and high - low > _DAYS_WITHOUT_TIME * _SECONDS_PER_DAY:
            return format_date(low // _SECONDS_PER_DAY * _SECONDS_PER_DAY), format_date(
                high // _SECONDS_PER_DAY * _SECONDS_PER_DAY
            )
        return self.format(low), self.format(high)

    def format(self, value: float) -> str:
        """Return a number or date as text."""
        if not np.isfinite(value):
            return ""
        if self.kind == DATE:
            return format_date(value)
        if self.unit == "bytes":
            return format_bytes(value)
        whole = float(value).is_integer() and abs(value) < _MANY_DIGITS
        number = f"{value:,.0f}" if whole else f"{value:,.4g}" if self.unit != "°" else f"{value:.5f}"
        return f"{number}{self.unit if self.unit in ('', '°') else ' ' + self.unit}"


BUILT_IN_INFOS = (
    ColumnInfo("taken", DATE, "exif", "", "Date and time on the clock of the camera."),
    ColumnInfo("camera", CATEGORY, "exif", "", "Make and model of the camera."),
    ColumnInfo("lens", CATEGORY, "exif", "", "Model of the lens."),
    ColumnInfo("latitude", NUMBER, "exif", "°", "GPS latitude; south is negative."),
    ColumnInfo("longitude", NUMBER, "exif", "°", "GPS longitude; west is negative."),
    ColumnInfo("width", NUMBER, "file", "px", "Width of the upright original."),
    ColumnInfo("height", NUMBER, "file", "px", "Height of the upright original."),
    ColumnInfo(FILE_SIZE, NUMBER, "file", "bytes", "Size of the file."),
    ColumnInfo(FILE_DATE, DATE, "file", "", "Date of the last change of the file, in local time."),
    ColumnInfo(
        FOLDER, CATEGORY, "file", "", "Folder of the file, inside the imported folder or the common folder of a list."
    ),
    ColumnInfo(QUALITY, CATEGORY, "pixels", "", "`blurred`, `dark`, `uniform` or `good`, from the stored pixels."),
    ColumnInfo("brightness", NUMBER, "pixels", "%", "Mean luminance."),
    ColumnInfo("contrast", NUMBER, "pixels", "%", "Standard deviation of the luminance."),
    ColumnInfo("sharpness", NUMBER, "pixels", "", "Strength of edges relative to the contrast; about 1 if sharp."),
)
BUILT_IN_COLUMNS = tuple(info.name for info in BUILT_IN_INFOS)
"""Names of the columns that every dataset may have."""


@dataclass(frozen=True)
class Column:
    """Values of a column, one per image."""

    info: ColumnInfo
    values: NDArray[Any]
    """Number, date: float64, NaN if missing. Category, text: int64 index into `names`, -1 if missing. (N,)"""

    names: tuple[str, ...] = ()
    """Distinct texts, sorted."""

    @cached_property
    def is_known(self) -> BoolArray:
        """Mask of the images that have a value, (N,)."""
        known: BoolArray = self.values >= 0 if self.info.is_coded else np.isfinite(self.values)
        return known

    def take(self, rows: IntArray) -> Column:
        """Return the values of some rows."""
        return Column(self.info, self.values[rows], self.names)

    def look_up(self, known_ids: ImageIds, ids: ImageIds) -> Column:
        """Return the values of other images; missing for images that the column does not have.

        Args:
            known_ids: ids of the images of this column, ascending, (N,).
            ids: ids of the images in the result, in any order.
        """
        missing = -1 if self.info.is_coded else np.nan
        if not len(known_ids):
            return Column(self.info, np.full(len(ids), missing, self.values.dtype), self.names)
        at = np.minimum(np.searchsorted(known_ids, ids), len(known_ids) - 1)
        return Column(self.info, np.where(known_ids[at] == ids, self.values[at], missing), self.names)

    def format(self, row: int) -> str:
        """Return the value of one image as text; empty if it is missing. Texts are not safe Markdown."""
        value = self.values[row]
        if self.info.is_coded:
            return self.names[value] if value >= 0 else ""
        return self.info.format(float(value))


@dataclass(frozen=True)
class ColumnSummary:
    """Counts, range and most frequent values of a column."""

    info: ColumnInfo
    known: int
    missing: int
    distinct: int
    low: float | None
    """Smallest number or earliest date; `None` for texts."""

    high: float | None
    frequent: tuple[tuple[str, int], ...]
    """Most frequent texts with their number of images; empty for numbers and dates."""


def summarize_column(column: Column, most_frequent: int = 3) -> ColumnSummary:
    """Return counts, range and most frequent values of a column."""
    known = column.values[column.is_known]
    found, counts = np.unique(known, return_counts=True)
    frequent: tuple[tuple[str, int], ...] = ()
    if column.info.is_coded:
        first = np.argsort(-counts, kind="stable")[:most_frequent]
        frequent = tuple((column.names[found[at]], int(counts[at])) for at in first.tolist())
    has_range = len(known) > 0 and not column.info.is_coded
    return ColumnSummary(
        info=column.info,
        known=len(known),
        missing=len(column.values) - len(known),
        distinct=len(found),
        low=float(found[0]) if has_range else None,
        high=float(found[-1]) if has_range else None,
        frequent=frequent,
    )


def make_distinct_names(names: Iterable[str], taken: Collection[str]) -> list[str]:
    """Return names of list columns, with the prefix `list_` where a name is taken already."""
    found: list[str] = []
    given = list(names)
    for name in given:
        distinct = name
        while distinct in taken or distinct in found or (distinct != name and distinct in given):
            distinct = LIST_PREFIX + distinct
        found.append(distinct)
    return found


def format_date(seconds: float) -> str:
    """Return a date of a column: `2024-05-01 12:30:00`, or only the day at midnight."""
    date = datetime.fromtimestamp(seconds, UTC)
    return f"{date:%Y-%m-%d}" if seconds % _SECONDS_PER_DAY == 0 else f"{date:%Y-%m-%d %H:%M:%S}"


def flag_quality(brightness: DoubleArray, contrast: DoubleArray, sharpness: DoubleArray) -> IntArray:
    """Return the index of each image's quality in (blurred, dark, good, uniform); -1 if unknown, (N,).

    A uniform image is also without edges, and a dark one often is: the first that applies counts.
    """
    names = (BLURRED, DARK, GOOD, UNIFORM)
    flags = np.select(
        [
            np.isnan(brightness),
            contrast <= MAX_UNIFORM_CONTRAST,
            (brightness <= MAX_DARK_BRIGHTNESS) & (contrast <= MAX_DARK_CONTRAST),
            sharpness <= MAX_BLURRED_SHARPNESS,
        ],
        [-1, names.index(UNIFORM), names.index(DARK), names.index(BLURRED)],
        names.index(GOOD),
    )
    return flags.astype(np.int64)
