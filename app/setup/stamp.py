"""The stamp of an environment: the file that is written last, so that an incomplete environment has none."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from app.setup.packages import FileSizes

_VERSION = 2  # 1 had no sizes


@dataclass(frozen=True)
class Stamp:
    """Content of a complete environment.

    Attributes:
        python: version of its interpreter.
        installed: lines of the requirements files that were installed.
        packages: the result of `measure_packages`.
    """

    python: str | None
    installed: list[str]
    packages: dict[str, FileSizes]


def read_stamp(file: Path) -> Stamp | None:
    """Return the stamp in a file; None if it is missing, damaged or of an earlier version."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        is_current = content.pop("version") == _VERSION
        return Stamp(**content) if is_current else None
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None


def write_stamp(file: Path, stamp: Stamp) -> None:
    """Write a stamp under a temporary name, then rename it."""
    temporary = file.with_suffix(".part")
    temporary.write_text(json.dumps({"version": _VERSION, **vars(stamp)}), encoding="utf-8")
    os.replace(temporary, file)
