"""Requirements files, and which of their packages an interpreter has."""

from __future__ import annotations

import csv
import importlib.metadata
import re
from collections.abc import Iterable
from pathlib import Path

from app.setup.packages import has_modules


def read_requirements(files: Iterable[Path]) -> list[str]:
    """Return the requirements in some files, without comments."""
    lines = [line.split("#")[0].strip() for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line]


def is_satisfied(requirement: str) -> bool:
    """Return whether the running interpreter has the package of one `name` or `name>=version`."""
    name, _, lowest = requirement.partition(">=")
    try:
        found = importlib.metadata.distribution(name.strip())
        has_version = "Version" in found.metadata and parse_version(found.version) >= parse_version(lowest)
        return has_version and has_modules(found)
    except (ImportError, OSError, ValueError, TypeError, csv.Error):  # not installed, or its metadata is damaged
        return False


def parse_version(version: str) -> tuple[int, ...]:
    """Return the numbers of a version for comparison: (2, 10) for `2.10.0+cu128`."""
    parts = [int(part) for part in re.findall(r"\d+", re.sub(r"[^\d.].*", "", version.strip()))]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def list_missing(requirements: Iterable[str], packages: Iterable[str]) -> list[str]:
    """Return the names of the requirements that are not among some packages.

    Options of pip, and requirements of some computers only (with a semicolon), are not checked.

    Args:
        requirements: lines of requirements files.
        packages: names of metadata folders, such as `torch-2.10.0.dist-info`.
    """
    installed = {normalize_package_name(package.split("-")[0]) for package in packages}
    lines = [line for line in requirements if not line.startswith("-") and ";" not in line]
    return sorted({normalize_package_name(line) for line in lines} - installed)


def normalize_package_name(requirement: str) -> str:
    """Return the name of a requirement, without extras and version, in the form that all its spellings share."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()
