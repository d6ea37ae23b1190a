"""Filters by columns, and the histograms that show them: each histogram counts what all other filters leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.view_models.cluster_view import ClusterView
from app.view_models.image_columns import ViewKey, list_view_columns, read_view_column
from app.view_models.image_selection import Mask
from crlc.arrays import DoubleArray
from crlc.data.columns import Column, ColumnInfo
from crlc.data.list_columns import CATEGORY, DATE, TEXT
from crlc.paths import to_printable

NO_VALUE = ""
"""Stands for images without a value in a column of categories: a category is never empty."""

MAX_HISTOGRAMS = 40
_MAX_BINS = 32
_MAX_CATEGORIES = 50
_CLIPPED_PERCENT = 0.5
"""Bins of numbers end at this percentile on both sides; the values beyond are in the first and the last bin."""

_MAX_TICKS = 5
_DAY, _YEAR = 86_400, 365.25 * 86_400
_TICK_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)


class ColumnFilter(NamedTuple):
    """Condition on one column: a range, categories, or a part of a text."""

    name: str
    low: float | None = None
    """Lowest accepted number or date; `None` for any."""

    high: float | None = None
    values: tuple[str, ...] = ()
    """Accepted categories, with `NO_VALUE`; of a column of texts, one part of the text."""


@dataclass(frozen=True)
class ColumnBins:
    """Division of the values of a column into bins or categories."""

    index: NDArray[np.int64]
    """Bin or category of each image; -1 for images without a value, and for rare categories, (N,)."""

    totals: NDArray[np.int64]
    """Number of images per bin."""

    edges: DoubleArray
    """Edges of the bins of numbers and dates, (B + 1,); empty for categories."""

    names: tuple[str, ...] = ()
    """Categories, most frequent first; `NO_VALUE` for images without one."""

    is_whole: bool = False
    """True if each bin is one whole number."""

    is_clipped: tuple[bool, bool] = (False, False)
    """Whether the first bin has lower values than its edge, and the last one higher values."""

    hidden: int = 0
    """Number of rare categories without a bin."""


# ---- masks


def select_by_column(column: Column, condition: ColumnFilter) -> Mask:
    """Return the mask (N,) of the images that satisfy a condition."""
    if column.info.kind == TEXT:
        part = "".join(condition.values).casefold()
        found = [number for number, name in enumerate(column.names) if part in name.casefold()]
        return np.isin(column.values, found)
    if column.info.kind == CATEGORY:
        wanted = set(condition.values)
        found = [number for number, name in enumerate(column.names) if name in wanted]
        return np.isin(column.values, found + [-1] * (NO_VALUE in wanted))
    mask: Mask = column.is_known.copy()
    if condition.low is not None:
        mask &= column.values >= condition.low
    if condition.high is not None:
        mask &= column.values <= condition.high
    return mask


def compute_column_masks(view: ClusterView, conditions: Sequence[ColumnFilter]) -> dict[str, Mask]:
    """Return the mask of each condition, by the name of its column."""
    return {one.name: select_by_column(read_view_column(view, one.name), one) for one in conditions}


def limit_column_filters(view: ClusterView, conditions: Sequence[ColumnFilter]) -> tuple[ColumnFilter, ...]:
    """Return the conditions on columns that the dataset has, and that fit the type of the column."""
    infos = {info.name: info for info in list_view_columns(view)} if conditions else {}
    return tuple(one for one in conditions if one.name in infos and bool(one.values) == infos[one.name].is_coded)


def parse_column_filters(given: Any) -> tuple[ColumnFilter, ...]:
    """Return the conditions of a decoded URL.

    Raises:
        TypeError: a value has a wrong type.
        ValueError: a condition has a wrong number of values.
    """
    found = []
    for name, low, high, values in given:
        ends = (low, high)
        if not isinstance(name, str) or not all(end is None or type(end) in (int, float) for end in ends):
            raise TypeError(name)
        if not all(isinstance(value, str) for value in values):
            raise TypeError(values)
        found.append(ColumnFilter(name, low, high, tuple(values)))
    return tuple(found)


def describe_column_filter(view: ClusterView, condition: ColumnFilter) -> str:
    """Return a short description of a condition; safe text."""
    info = next((info for info in list_view_columns(view) if info.name == condition.name), None)
    if info is None:
        return to_printable(condition.name)
    title = to_printable(info.title)
    if info.kind == TEXT:
        return f"{title} contains {to_printable(''.join(condition.values))}"
    if condition.values:
        names = [to_printable(value) or "no value" for value in condition.values]
        return f"{title}: {', '.join(names)}" if len(names) <= 3 else f"{title}: {len(names)} values"  # noqa: PLR2004
    low, high = condition.low, condition.high
    if low is not None and high is not None:
        first, last = info.format_range(low, high)
        return f"{title} {first} to {last}"
    if low is None:
        return f"{title} ≤ {'' if high is None else info.format(high)}"
    return f"{title} ≥ {info.format(low)}"


# ---- histograms


def build_condition(view: ClusterView, name: str, first: int, last: int) -> ColumnFilter | None:
    """Return the condition for some consecutive bins; `None` for all bins.

    Args:
        view: the view.
        name: name of a column of numbers or dates.
        first: index of the first bin.
        last: index after the last bin.
    """
    bins = divide_column(view, name)
    count = len(bins.totals)
    first, last = max(0, min(first, count - 1)), max(1, min(last, count))
    if last <= first or (first, last) == (0, count):
        return None
    low = None if first == 0 else float(bins.edges[first])
    high = None if last == count else float(bins.edges[last] - (1 if bins.is_whole else 0))
    return ColumnFilter(name, low, high)


def build_histograms(
    view: ClusterView, conditions: Sequence[ColumnFilter], others: Mask, masks: Mapping[str, Mask]
) -> list[dict[str, Any]]:
    """Return the histograms of the columns with several values, for the browser.

    Args:
        view: the view.
        conditions: conditions on columns.
        others: mask of the images that all other filters, the selection and the legend leave.
        masks: mask of each condition, by the name of its column.
    """
    active = {one.name: one for one in conditions}
    found = []
    for info in list_view_columns(view):
        left = others
        for name, mask in masks.items():
            if name != info.name:  # a histogram does not react to its own filter: it could not be widened
                left = left & mask
        histogram = _build_histogram(view, info, active.get(info.name), left)
        if histogram is not None:
            found.append(histogram)
        if len(found) == MAX_HISTOGRAMS:
            break
    return found


def divide_column(view: ClusterView, name: str) -> ColumnBins:
    """Return the bins of a column that is no free text; cached."""
    return _divide(ViewKey(view), name)


@lru_cache(maxsize=48)
def _divide(key: ViewKey, name: str) -> ColumnBins:
    column = read_view_column(key.view, name)
    return _divide_categories(column) if column.info.is_coded else _divide_numbers(column)


def _divide_categories(column: Column) -> ColumnBins:
    """Number the categories by frequency; images without a value are the last one."""
    counts = np.bincount(column.values[column.is_known], minlength=len(column.names))
    order = [number for number in np.argsort(-counts, kind="stable").tolist() if counts[number]]
    listed = order[:_MAX_CATEGORIES]
    ranks = np.full(len(column.names) + 1, -1, np.int64)
    ranks[listed] = np.arange(len(listed))
    names = [column.names[number] for number in listed]
    if not column.is_known.all():
        ranks[-1] = len(listed)
        names.append(NO_VALUE)
    index = ranks[column.values]
    totals = np.bincount(index[index >= 0], minlength=len(names))
    return ColumnBins(index, totals, np.empty(0), tuple(names), hidden=len(order) - len(listed))


def _divide_numbers(column: Column) -> ColumnBins:
    known = column.values[column.is_known]
    index = np.full(len(column.values), -1, np.int64)
    if not len(known):
        return ColumnBins(index, np.zeros(0, np.int64), np.empty(0))
    low, high = float(known.min()), float(known.max())
    is_whole = column.info.kind != DATE and high - low < _MAX_BINS and bool((known == np.rint(known)).all())
    if is_whole:
        edges = np.arange(low, high + 2)
    else:
        if column.info.kind != DATE:
            low, high = np.percentile(known, (_CLIPPED_PERCENT, 100 - _CLIPPED_PERCENT))
        edges = np.linspace(low, high, _MAX_BINS + 1) if high > low else np.array([low, low + 1])
    count = len(edges) - 1
    index[column.is_known] = np.clip(np.searchsorted(edges, known, side="right") - 1, 0, count - 1)
    is_clipped = (bool(known.min() < edges[0]), not is_whole and bool(known.max() > edges[-1]))
    totals = np.bincount(index[index >= 0], minlength=count)
    return ColumnBins(index, totals, edges, is_whole=is_whole, is_clipped=is_clipped)


def _build_histogram(
    view: ClusterView, info: ColumnInfo, condition: ColumnFilter | None, left: Mask
) -> dict[str, Any] | None:
    """Return the histogram of one column; `None` if all its images have the same value."""
    common = {"name": info.name, "title": to_printable(info.title), "kind": info.kind, "help": info.description}
    if info.kind == TEXT:
        return {**common, "value": "" if condition is None else "".join(condition.values)}
    bins = divide_column(view, info.name)
    if np.count_nonzero(bins.totals) <= 1 and condition is None:
        return None
    index = bins.index[left]
    counts = np.bincount(index[index >= 0], minlength=len(bins.totals))
    common |= {"totals": bins.totals.tolist(), "counts": counts.tolist()}
    if info.kind == CATEGORY:
        return {
            **common,
            "names": list(bins.names),
            "texts": [to_printable(name) or "no value" for name in bins.names],
            "selected": [] if condition is None else list(condition.values),
            "hidden": bins.hidden,
        }
    shown_last = bins.edges[-1] - (1 if bins.is_whole else 0)
    low, high = info.format_range(float(bins.edges[0]), float(shown_last))
    labels = _label_bins(info, bins)
    return {
        **common,
        "low": f"≤ {low}" if bins.is_clipped[0] else low,
        "high": f"≥ {high}" if bins.is_clipped[1] else high,
        "labels": labels,
        "ends": [info.format(edge - 1) for edge in bins.edges.tolist()] if bins.is_whole else labels,
        "ticks": _list_date_ticks(bins.edges) if info.kind == DATE else [],
        "selected": None if condition is None else _find_bins(bins, condition),
    }


def _find_bins(bins: ColumnBins, condition: ColumnFilter) -> list[int]:
    """Return the first bin of a range, and the one after its last."""
    first = 0 if condition.low is None else int(np.searchsorted(bins.edges, condition.low, side="right")) - 1
    high = None if condition.high is None else condition.high + (1 if bins.is_whole else 0)
    last = len(bins.totals) if high is None else int(np.searchsorted(bins.edges, high, side="left"))
    first = min(max(first, 0), len(bins.totals) - 1)
    return [first, min(max(last, first + 1), len(bins.totals))]


def _label_bins(info: ColumnInfo, bins: ColumnBins) -> list[str]:
    """Return the text of each edge, for the start of a range."""
    edges = bins.edges.tolist()
    if bins.is_whole:
        return [info.format(edge) for edge in edges]
    if info.kind == DATE and edges[-1] - edges[0] > 3 * _DAY:
        return [info.format(edge // _DAY * _DAY) for edge in edges]
    return [info.format(edge) for edge in edges]


def _list_date_ticks(edges: DoubleArray) -> list[dict[str, Any]]:
    """Return ticks of a time line at starts of years, months or days: their position from 0 to 1, and a text."""
    low, high = float(edges[0]), float(edges[-1])
    span = high - low
    if span < 2 * _DAY:
        return []
    step = next((months for months in _TICK_MONTHS if span / (_YEAR / 12) / months <= _MAX_TICKS), _TICK_MONTHS[-1])
    starts: list[tuple[float, str]] = []
    if span > _YEAR / 6:
        first = datetime.fromtimestamp(low, UTC)
        month = -(-(first.year * 12 + first.month - 1) // step) * step
        while (start := datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)).timestamp() <= high:
            starts.append((start.timestamp(), f"{start:%Y}" if start.month == 1 else f"{start:%b}"))
            month += step
    else:
        days = -(-int(span // _DAY + 1) // _MAX_TICKS)
        at = (low // _DAY + 1) * _DAY
        while at <= high:
            starts.append((at, f"{datetime.fromtimestamp(at, UTC):%d %b}"))
            at += days * _DAY
    return [{"at": (at - low) / span, "text": text} for at, text in starts if at >= low]
