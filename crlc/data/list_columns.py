"""Types of the columns of a CSV list: number, date, category or text, inferred from all cells of a column."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

NUMBER, DATE, CATEGORY, TEXT = "number", "date", "category", "text"
KINDS = {NUMBER: "REAL", DATE: "REAL", CATEGORY: "TEXT", TEXT: "TEXT"}
"""Kinds of columns, each with its SQLite type. Dates are seconds since 1970, as if their clock were UTC."""

MISSING_TEXTS = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Cells without a value, in lower case."""

_MAX_CATEGORIES = 1000
_MIN_IMAGES_PER_CATEGORY = 2
"""A column of texts has categories if each occurs this often on average: names of files or captions do not."""

# A number with a leading zero, such as 00123, is an identifier.
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*|(?=\.\d))(?:\.\d*)?(?:[eE][+-]?\d{1,3})?")
# As spreadsheets of many countries write them: 12,5. In a column of 1,234 and 5,678, the comma may separate thousands.
_COMMA_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:,\d+)?")
_CERTAIN_DECIMALS = re.compile(r"[+-]?(?:0,\d+|\d+,(?:\d{1,2}|\d{4,}))")
_DAY_FIRST_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:,? (\d{1,2}):(\d{2})(?::(\d{2}))?)?")
_DATE = re.compile(
    r"(\d{4})[-/:.](\d{1,2})[-/:.](\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?(?:Z| ?[+-]\d{2}:?\d{2})?)?"
)


@dataclass
class ColumnGuess:
    """The kinds that a column may have, after the cells seen so far."""

    _is_number: bool = True
    _is_comma_number: bool = True
    _has_decimals: bool = False
    _is_date: bool = True
    _distinct: set[str] = field(default_factory=set)
    _count: int = 0

    def add(self, cell: str) -> None:
        """Add a cell to the column."""
        if is_missing(cell):
            return
        self._count += 1
        if self._is_number:
            self._is_number = _NUMBER.fullmatch(cell) is not None
        if self._is_comma_number:
            self._is_comma_number = _COMMA_NUMBER.fullmatch(cell) is not None
            self._has_decimals = self._has_decimals or _CERTAIN_DECIMALS.fullmatch(cell) is not None
        if self._is_date:
            self._is_date = parse_date(cell) is not None
        if len(self._distinct) <= _MAX_CATEGORIES:
            self._distinct.add(cell)

    @property
    def has_values(self) -> bool:
        """Whether at least one cell has a value."""
        return self._count > 0

    @property
    def kind(self) -> str:
        """The most specific kind that fits all cells."""
        if not self._count:
            return TEXT
        if self._is_number or (self._is_comma_number and self._has_decimals):
            return NUMBER
        if self._is_date:
            return DATE
        is_category = len(self._distinct) <= min(_MAX_CATEGORIES, self._count / _MIN_IMAGES_PER_CATEGORY)
        return CATEGORY if is_category else TEXT


def is_missing(cell: str) -> bool:
    """Return whether a cell has no value."""
    return cell.lower() in MISSING_TEXTS


def parse_cell(cell: str, kind: str) -> float | str | None:
    """Return the value of a cell in a column of a kind; `None` if it has none."""
    if is_missing(cell):
        return None
    if kind == NUMBER:
        return float(cell.replace(",", "."))
    return parse_date(cell) if kind == DATE else cell


def parse_date(text: str) -> float | None:
    """Return a date, with or without a time, in seconds since 1970; `None` if it is none.

    The order is year, month, day, or with points also day, month, year: 31.12.2024. With slashes, the order of day and
    month differs between countries. A time zone is ignored: the time on the clock is what the user sees.
    """
    found = _DATE.fullmatch(text) or _DAY_FIRST_DATE.fullmatch(text)
    if found is None:
        return None
    first, month, last, hour, minute, second = (int(part or 0) for part in found.groups())
    year, day = (last, first) if found.re is _DAY_FIRST_DATE else (first, last)
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None
