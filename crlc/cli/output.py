"""Output of the CLI: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable
from typing import Any

from crlc.formatting import format_progress
from crlc.progress import Progress, ProgressCallback, no_progress

PROGRESS_FORMATS = ("text", "json", "none")
"""Formats of progress and errors on stderr; `json` writes one object per line, for programs."""

_LOG_LINE_SECONDS = 5.0


class Output:
    """Printer of results as text or as one JSON object."""

    def __init__(self, *, as_json: bool, progress_format: str = PROGRESS_FORMATS[0]) -> None:
        """Set the format of results on stdout and of progress on stderr.

        Args:
            as_json: print the result as one JSON object instead of text.
            progress_format: one of `PROGRESS_FORMATS`.
        """
        self.as_json = as_json
        writers: dict[str, ProgressCallback] = {"json": write_progress_line, "none": no_progress}
        self.progress: ProgressCallback = writers.get(progress_format) or TerminalProgress()
        """Callback that writes the progress of a command to stderr."""

    def print_result(self, content: dict[str, Any], lines: Iterable[str]) -> None:
        """Print the result of a command.

        Args:
            content: the result as JSON, printed if the output is JSON.
            lines: the result as text, printed otherwise.
        """
        if self.as_json:
            print(json.dumps(content, ensure_ascii=False, allow_nan=False))
        else:
            for line in lines:
                print(line)


def write_progress_line(progress: Progress) -> None:
    """Write a progress report to stderr as one line of JSON: `{"progress": {...}}`."""
    _write_json_line({"progress": progress.to_json()})


def write_error_line(message: str) -> None:
    """Write an error to stderr as one line of JSON: `{"error": "..."}`."""
    _write_json_line({"error": message})


def _write_json_line(content: dict[str, Any]) -> None:
    print(json.dumps(content), file=sys.stderr, flush=True)


class TerminalProgress:
    """Progress on stderr: one updated line on a terminal, a line every few seconds in a log."""

    def __init__(self) -> None:
        """Check whether stderr is a terminal."""
        self._is_terminal = sys.stderr.isatty()
        self._last_line = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Print one report."""
        text = format_progress(progress)
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:width]:<{width}}", end="\n" if progress.finished else "", file=sys.stderr, flush=True)
        elif progress.finished or time.monotonic() - self._last_line > _LOG_LINE_SECONDS:
            self._last_line = time.monotonic()
            print(text, file=sys.stderr, flush=True)
