"""Recognition of folders that sort photographs by date: their names are years, months or days, not classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
)  # fmt: skip
_YEAR, _MONTH, _DAY = r"(?:19|20)\d\d", r"(?:0[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
_DATE = re.compile(rf"{_YEAR}s?|{_YEAR}{_MONTH}|{_YEAR}{_MONTH}(?:0[1-9]|[12]\d|3[01])|{'|'.join(_MONTH_NAMES)}")
"""A part of a name that is a date by itself: 2021, 1990s, 202105, 20210512, May."""

_NUMBER_IN_DATE = re.compile(_DAY)
_NUMBERED_MONTH = re.compile(_MONTH)
_MAX_PARTS = 4


def are_date_folders(folders: Iterable[str]) -> bool:
    """Return whether the paths of all folders consist of dates, below what they have in common.

    Numbers alone are dates only below a date, as `2021/05`, or if all are months in two digits: the folders `0` to `9`
    are classes.
    """
    paths = [folder.split("/") for folder in folders]
    if not paths:
        return False
    shared = _count_shared_names(paths)
    names = [[name for at, name in enumerate(path) if at >= shared or _is_date(name)] for path in paths]
    if all(len(path) == 1 and _NUMBERED_MONTH.fullmatch(path[0]) for path in names):
        return True
    return all(_is_date(path[0]) and all(_is_part_of_date(name) for name in path) for path in names)


def _count_shared_names(paths: Sequence[Sequence[str]]) -> int:
    """Return the number of leading names that all paths share; the last name of a path is never shared."""
    longest = min(len(path) for path in paths) - 1
    return next((at for at in range(longest) if len({path[at] for path in paths}) > 1), longest)


def _is_date(name: str) -> bool:
    """Return whether a name is a date: 2021, 2021-05, 2021_05_12, 12.05.2021, May, May 2021."""
    return _is_part_of_date(name) and any(_DATE.fullmatch(part) for part in _split(name))


def _is_part_of_date(name: str) -> bool:
    parts = _split(name)
    return 0 < len(parts) <= _MAX_PARTS and all(
        _DATE.fullmatch(part) or _NUMBER_IN_DATE.fullmatch(part) for part in parts
    )


def _split(name: str) -> list[str]:
    return [part for part in re.split(r"[\W_]+", name.lower()) if part]
