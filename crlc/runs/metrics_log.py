"""Metrics log of a run (metrics.jsonl) and its summary: the newest metrics, timing and warnings."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

from crlc.errors import DamagedError
from crlc.files import explain_read_errors
from crlc.json_schema import check_entries
from crlc.paths import refuse_special_file

Record = Mapping[str, Any]
"""One line of the log. Its `kind` is `step`, `epoch`, `stage` or `end`."""

_ADVICE = "Delete it: only the curves and metrics of the run are lost."
_LASTING_WARNINGS = ("small-batch",)
"""Kinds of warnings that hold for the whole run; the others are about the newest epoch only."""


@dataclass(frozen=True)
class MetricsSummary:
    """Newest values in a metrics log."""

    metrics: Record = field(default_factory=dict)
    """Newest value of every metric that was computed, with the other entries of epoch, stage and end records."""

    warnings: tuple[dict[str, str], ...] = ()
    """Warnings that hold now, with `kind`, `text` and sometimes `advice`."""

    @property
    def seconds(self) -> float:
        """Time spent on training steps, in seconds."""
        return float(self._timing.get("seconds", 0.0))

    @property
    def images_per_second(self) -> float | None:
        """Mean training speed, or `None` before the first step."""
        return self._timing.get("images_per_second") or None

    @property
    def peak_memory_mb(self) -> float | None:
        """Peak memory of the training process, or `None` while it is unknown."""
        return self._timing.get("memory_mb")

    @property
    def _timing(self) -> dict[str, float]:
        timing: dict[str, float] = self.metrics.get("timing", {})
        return timing


def summarize_metrics(records: Iterable[Record]) -> MetricsSummary:
    """Return the newest metrics and warnings of the records of a run, oldest first."""
    metrics: dict[str, Any] = {}
    warnings: dict[str, dict[str, str]] = {}
    for record in records:
        if record.get("kind") == "step":
            continue
        metrics |= {name: value for name, value in record.items() if value is not None}
        if record.get("kind") == "epoch":
            warnings = {kind: warning for kind, warning in warnings.items() if kind in _LASTING_WARNINGS}
        warnings |= {warning["kind"]: warning for warning in record.get("warnings", ())}
    return MetricsSummary(metrics, tuple(warnings.values()))


class _RequiredWarningEntries(TypedDict):
    kind: str
    text: str


class _WarningEntries(_RequiredWarningEntries, total=False):
    advice: str


class _RecordEntries(TypedDict, total=False):
    """Schema of one line. Metrics that are not listed are numbers, lists or `None` too, but no program relies on it."""

    kind: str
    step: int
    epoch: int
    stage: str
    timing: dict[str, float]
    warnings: list[_WarningEntries]
    loss: float | None
    learning_rate: float | None
    acc: float | None
    nmi: float | None
    ari: float | None
    cluster_information: float | None
    clusters_found: int | None
    largest_share: float | None
    classification_accuracy: float | None
    oracle_acc: float | None
    oracle_acc_any_epoch: float | None


def parse_record(line: bytes) -> dict[str, Any]:
    """Return the record in a line of a metrics log.

    Raises:
        ValueError: the line is not a record, in words that continue a sentence about the line.
    """
    try:
        record = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"cannot be read ({error})") from None
    if not isinstance(record, dict):
        raise ValueError("is not an object")
    check_entries(record, _RecordEntries)
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


class MetricsLog:
    """Append-only file with one JSON record per line.

    A last line that a crash cut off is ignored on reading. Resuming a run truncates the log to its checkpoint.
    """

    def __init__(self, path: Path) -> None:
        """Store the path; the file is created by the first `append`."""
        self.path = path

    def append(self, record: Record) -> None:
        """Add one record."""
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record, allow_nan=False) + "\n")

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield all complete records, oldest first.

        Raises:
            DamagedError: the file cannot be read, or a line is not a record.
            AccessError: the user has no permission to read the file.
        """
        with explain_read_errors(self.path, _ADVICE):
            try:
                refuse_special_file(self.path)
                stream = self.path.open("rb")
            except FileNotFoundError:
                return
            with stream:
                for number, line in enumerate(stream, 1):
                    if not line.endswith(b"\n"):
                        return  # cut off by a crash, or being written right now
                    try:
                        record = parse_record(line)
                    except ValueError as error:
                        raise DamagedError(f"{self.path} is damaged: line {number} {error}.", advice=_ADVICE) from None
                    yield record

    def summarize(self) -> MetricsSummary:
        """Return the newest metrics and warnings; the file is read again only after it has changed.

        Raises:
            CrlcError: see `read`.
        """
        with explain_read_errors(self.path, _ADVICE):
            try:
                status = self.path.stat()
            except FileNotFoundError:
                return MetricsSummary()
        return _summarize_file(self.path, status.st_mtime_ns, status.st_size)

    def flush(self) -> int:
        """Flush the log to disk, before a checkpoint refers to it, and return its length in bytes."""
        if not self.path.exists():
            return 0
        with self.path.open("ab") as stream:
            os.fsync(stream.fileno())
            return stream.seek(0, os.SEEK_END)

    def truncate(self, length: int) -> None:
        """Remove the records after the first `length` bytes, which are later than the checkpoint."""
        with explain_read_errors(self.path, _ADVICE):
            if self.path.exists() and self.path.stat().st_size > length:  # truncating to more would add zeros
                os.truncate(self.path, length)


@lru_cache(maxsize=512)
def _summarize_file(path: Path, *_file_stamp: int) -> MetricsSummary:
    """Summarise a log; cached because each rerun of the app requests the summary of every run."""
    return summarize_metrics(MetricsLog(path).read())
