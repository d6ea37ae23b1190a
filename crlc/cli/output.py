"""What the command line prints: results on stdout, progress on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from crlc.progress import Progress

_LINE_EVERY_SECONDS = 5.0


class Output:
    """Prints for people, or one JSON object for programs."""

    def __init__(self, *, as_json: bool) -> None:
        """Choose the kind of reader."""
        self.as_json = as_json

    def result(self, content: dict[str, Any], lines: Iterable[str]) -> None:
        """Print the outcome of a command: `lines` for people, `content` for programs."""
        if self.as_json:
            print(json.dumps(content, ensure_ascii=False, allow_nan=False))
        else:
            for line in lines:
                print(line)


class TerminalProgress:
    """Shows progress on stderr: one moving line on a terminal, a line now and then in a log."""

    def __init__(self) -> None:
        """Find out what stderr is."""
        self._moving = sys.stderr.isatty()
        self._last_line = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Show one report."""
        text = describe(progress)
        if self._moving:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:width]:<{width}}", end="\n" if progress.finished else "", file=sys.stderr, flush=True)
        elif progress.finished or time.monotonic() - self._last_line > _LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            print(text, file=sys.stderr, flush=True)


def describe(progress: Progress) -> str:
    """One line: what, how far, how fast, how long still."""
    parts = [progress.stage, f"{progress.done:,}"]
    if progress.total is not None:
        share = progress.done / progress.total if progress.total else 1.0
        parts = [progress.stage, f"{share:4.0%}", f"{progress.done:,}/{progress.total:,}"]
    if progress.done:
        parts.append(f"{_rate(progress.per_second)} {progress.unit}/s")
    if progress.seconds_left is not None and not progress.finished:
        parts.append(f"{duration(progress.seconds_left)} left")
    return "  ".join(parts)


def _rate(per_second: float) -> str:
    """Slow work has a digit more: `0.4`, `12`."""
    return f"{per_second:,.0f}" if per_second >= 9.95 else f"{per_second:.1f}"  # noqa: PLR2004


def duration(seconds: float) -> str:
    """Seconds as people say them: `8.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 9.95:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004
        return f"{whole} s"
    if whole < 3600:  # noqa: PLR2004
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def megabytes(count: int) -> str:
    """Bytes as people say them: `640 kB`, `83 MB`, `2.7 GB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}" if count < 10 * size else f"{count / size:,.0f} {unit}"
    return f"{count} bytes"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns lined up; numbers to the right."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [all(cell[:1].isdigit() for cell in column[1:]) and bool(rows) for column in columns]

    def line(cells: Sequence[str]) -> str:
        padded = (f"{c:>{w}}" if n else f"{c:<{w}}" for c, w, n in zip(cells, widths, numeric, strict=True))
        return "  ".join(padded).rstrip()

    return [line(header), *map(line, rows)]
