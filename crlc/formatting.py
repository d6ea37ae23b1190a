"""Formatting of durations, sizes, counts and progress, for both the terminal and the app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crlc.progress import Progress

_ONE_DECIMAL_BELOW = 9.95
"""Numbers below this are shown with one decimal; from here on they would be rounded to `10.0`."""

_MINUTE, _HOUR = 60, 3600
_COARSE_SECONDS = 5
_HALVES_BELOW = 10
_CLOSE_RATIO = 1.4
"""Ends of a range that differ by less than this factor are shown as one value."""

_MIN_RATE = 0.1
"""A lower rate per second is not shown: `0.0 images/s` tells nothing."""

_BYTE_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def format_duration(seconds: float) -> str:
    """Return a duration with at most two units: `8.2 s`, `2 min`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < _ONE_DECIMAL_BELOW:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        count, rest, units = whole // _MINUTE, whole % _MINUTE, ("min", "s")
    else:
        count, rest, units = whole // _HOUR, whole % _HOUR // _MINUTE, ("h", "min")
    return f"{count} {units[0]} {rest} {units[1]}" if rest else f"{count} {units[0]}"


def format_duration_range(low: float, high: float) -> str:
    """Return a range of durations in coarse steps: `2 to 5 min`, `40 s to 2 min`; one value if both ends are close."""
    if high <= _CLOSE_RATIO * low or high < _ONE_DECIMAL_BELOW:
        return _format_coarse((low * high) ** 0.5)
    first, last = _format_coarse(low), _format_coarse(high)
    number, unit = first.split(" ")
    return last if first == last else f"{number if last.endswith(f' {unit}') else first} to {last}"


def _format_coarse(seconds: float) -> str:
    """Return a duration rounded to what an estimate can promise: 5 s below a minute, half a minute or more above."""
    if seconds < _ONE_DECIMAL_BELOW:
        return format_duration(seconds)
    rounded = _COARSE_SECONDS * round(seconds / _COARSE_SECONDS)
    if rounded < _MINUTE:
        return f"{rounded} s"
    unit, name = (_MINUTE, "min") if seconds < _HOUR else (_HOUR, "h")
    count = seconds / unit
    return f"{round(2 * count) / 2 if count < _HALVES_BELOW else round(count):g} {name}"


def format_bytes(count: float) -> str:
    """Return a number of bytes in decimal units: `640 kB`, `83 MB`, `2.7 GB`."""
    for unit, size in _BYTE_UNITS:
        if count >= size:
            return f"{count / size:,.1f} {unit}" if count < 10 * size else f"{count / size:,.0f} {unit}"
    return f"{count:.0f} bytes"


def format_count(count: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 image`, `2,000 images`.

    Args:
        count: the number.
        singular: the noun for one of them.
        plural: the noun for several; by default the singular with an `s`.
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def format_cluster(number: int, names: Mapping[int, str]) -> str:
    """Return `cluster 3`, or `3 cats` if the cluster has a name."""
    return f"{number} {names[number]}" if number in names else f"cluster {number}"


def format_list(texts: Sequence[str], limit: int, separator: str = ", ") -> str:
    """Return the first texts and the number of the others: `a, b and 3 more`.

    Args:
        texts: the texts to join.
        limit: maximum number of texts shown.
        separator: text between two of them.
    """
    hidden = len(texts) - limit
    return separator.join(texts[:limit]) + (f" and {hidden:,} more" if hidden > 0 else "")


def shorten_middle(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters with an ellipsis in its middle: `IMG_20…1234.jpg`."""
    if len(text) <= limit:
        return text
    start = (limit - 1) // 2
    return f"{text[:start]}…{text[len(text) - (limit - 1 - start) :]}"


def format_progress(progress: Progress, separator: str = "  ") -> str:
    """Return one line: stage, fraction, count, speed and time left.

    Args:
        progress: the progress.
        separator: text between the parts. A page shows two spaces as one.
    """
    parts = [progress.stage] if not progress.done else [progress.stage, f"{progress.done:,}"]
    if progress.total is not None:
        fraction = progress.done / progress.total if progress.total else 1.0
        parts = [
            progress.stage,
            f"{fraction:4.0%}" if separator.isspace() else f"{fraction:.0%}",
            f"{progress.done:,}/{progress.total:,}",
        ]
    rate = progress.per_second
    if progress.done and rate >= _MIN_RATE:
        parts.append(f"{rate:,.0f}" if rate >= _ONE_DECIMAL_BELOW else f"{rate:.1f}")
        parts[-1] += f" {progress.unit}/s"
    if progress.seconds_left and not progress.finished:
        parts.append(f"{format_duration(progress.seconds_left)} left")
    return separator.join(parts)
