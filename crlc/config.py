"""Settings as frozen dataclasses: every field documented, every value checked where it is made."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from crlc.errors import UsageError

SPLIT_NAMES = ("train", "test", "val", "unlabelled")
SMALLEST_SIZE, LARGEST_SIZE = 8, 1024
MOST_WORKERS = 64
ALL = "all"


def available_cores() -> int:
    """How many cores this process may use, not how many the computer has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class ImportOptions:
    """How a source becomes a data set. What is `None` keeps what an earlier import of it said."""

    size: int | None = None
    """Side of the decoded squares in pixels; by default it fits the images, at most 96."""

    classes: str | None = None
    """Where classes come from: `auto`, `folders`, `none`, or a CSV file with path and class."""

    split: str | None = None
    """Which splits to take, joined by `+`: train, test, val, unlabelled; or `all`, as by default."""

    subset: str | None = None
    """Only these class folders: imagenet10, imagenet-dogs, imagenet50, imagenet100, imagenet200, a file, or `all`."""

    limit: int | None = None
    """At most that many images, a spread-out and repeatable sample; 0 for all, as by default."""

    workers: int | None = None
    """Processes that decode; by default one for each core."""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: naming the field, its value and what is allowed.
        """
        _require_between("size", self.size, SMALLEST_SIZE, LARGEST_SIZE)
        _require_between("limit", self.limit, 0, None)
        _require_between("workers", self.workers, 1, MOST_WORKERS)
        for name in self.splits or ():
            if name not in SPLIT_NAMES:
                raise UsageError(
                    f"split={self.split!r}: {name!r} is not one of {', '.join(SPLIT_NAMES)} (joined by +)."
                )

    @property
    def splits(self) -> frozenset[str] | None:
        """The splits to take, or `None` for all."""
        return None if self.split in (None, ALL) else frozenset(str(self.split).split("+"))

    @property
    def narrowed(self) -> dict[str, str]:
        """What makes the data set smaller than its source, or its classes others than usual: name and value."""
        narrow = {"classes": self.classes, "split": self.split, "subset": self.subset, "limit": self.limit}
        return {name: str(value) for name, value in narrow.items() if value not in (None, 0, ALL, "auto")}

    @property
    def processes(self) -> int:
        """How many processes decode."""
        return self.workers or available_cores()

    def or_else(self, earlier: ImportOptions) -> ImportOptions:
        """These options, and for what they leave open those of an earlier import."""
        kept = {name: value for name, value in vars(self).items() if value is not None}
        return replace(earlier, **kept)

    def with_absolute_paths(self) -> ImportOptions:
        """The same, with files named so that they are found again from any folder."""
        files = {name: value for name, value in vars(self).items() if name in ("classes", "subset") and value}
        return replace(self, **{name: os.path.abspath(value) for name, value in files.items() if os.path.isfile(value)})

    def to_json(self) -> dict[str, Any]:
        """What is remembered with the data set; the number of processes is this computer's business."""
        return {name: value for name, value in vars(self).items() if name not in ("workers", "size")}


def _require_between(name: str, value: int | None, lowest: int, highest: int | None) -> None:
    if value is None or (value >= lowest and (highest is None or value <= highest)):
        return
    allowed = f"at least {lowest}" if highest is None else f"from {lowest} to {highest}"
    raise UsageError(f"{name}={value} is not allowed: it must be {allowed}.")
