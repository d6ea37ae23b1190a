"""Options of an import, checked when they are created."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from crlc.data.sources.base import SPLITS
from crlc.errors import UsageError
from crlc.subprocesses import count_available_cores
from crlc.validation import Validated, number

MIN_SIZE, MAX_SIZE = 8, 1024
PHOTOGRAPH_SIZE = 160
"""Stored size of images with sides over 64 px: the default pretrained backbone needs it, so each is decoded once."""

MAX_WORKERS = 64
ALL = "all"


@dataclass(frozen=True)
class ImportOptions(Validated):
    """Options of an import; `None` keeps the value of an earlier import of the dataset."""

    size: int | None = number(None, MIN_SIZE, MAX_SIZE)
    """Side of the decoded square images in pixels; by default chosen from the images, at most 160."""

    classes: str | None = None
    """Source of the ground-truth classes: `auto`, `folders`, `none`, or a CSV file with paths and classes."""

    split: str | None = None
    """Splits to import, joined by `+`: train, test, val, unlabelled; or `all`, the default."""

    subset: str | None = None
    """Class folders to import: imagenet10, imagenet-dogs, imagenet50, imagenet100, imagenet200, a file, or `all`."""

    limit: int | None = number(None, 0)
    """Maximum number of images, sampled reproducibly from all folders; 0, the default, imports all."""

    workers: int | None = number(None, 1, MAX_WORKERS)
    """Number of decoding processes; by default one per available core."""

    placeholders: bool | None = None
    """Whether missing files of a list are imported with a placeholder, as points; for datasets with own vectors."""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: a value is not allowed.
        """
        super().__post_init__()
        for name in self.splits or ():
            if name not in SPLITS:
                raise UsageError(
                    f"split={self.split!r} is not allowed: {name!r} is not one of {', '.join(SPLITS)}.",
                    advice="Join several splits with +.",
                )

    @property
    def splits(self) -> frozenset[str] | None:
        """The splits to import, or `None` for all."""
        return None if self.split in (None, ALL) else frozenset(str(self.split).split("+"))

    @property
    def restrictions(self) -> dict[str, str]:
        """Options by name that restrict the dataset to a part of its source, or change its classes."""
        narrow = {"classes": self.classes, "split": self.split, "subset": self.subset, "limit": self.limit}
        return {name: str(value) for name, value in narrow.items() if value not in (None, 0, ALL, "auto")}

    @property
    def worker_count(self) -> int:
        """Number of decoding processes."""
        return self.workers or count_available_cores()

    def with_defaults(self, earlier: ImportOptions) -> ImportOptions:
        """Return these options; those that are `None` are taken from an earlier import."""
        kept = {name: value for name, value in vars(self).items() if value is not None}
        return replace(earlier, **kept)

    def with_absolute_paths(self) -> ImportOptions:
        """Return a copy with absolute paths, so that the files are found from any current folder."""
        files = {name: value for name, value in vars(self).items() if name in ("classes", "subset") and value}
        return replace(self, **{name: os.path.abspath(value) for name, value in files.items() if os.path.isfile(value)})

    def to_json(self) -> dict[str, Any]:
        """Return the options that are stored with the dataset: all except the size and the number of workers."""
        return {name: value for name, value in vars(self).items() if name not in ("workers", "size")}
