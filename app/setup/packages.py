"""Files of installed packages, compared with the list of files (RECORD) that every package has."""

from __future__ import annotations

import csv
import importlib.util
import os
import shutil
import stat
from collections.abc import Iterable
from importlib.metadata import Distribution
from pathlib import Path

_PIP_PREFIX = "pip-"

FileSizes = dict[str, int]
"""Bytes of files by path; 0 for folders, and where any number is right."""


def list_packages(environment_folder: Path) -> list[Path]:
    """Return the metadata folders (.dist-info) of all packages in an environment, without pip itself."""
    return [folder for folder in _find_metadata(environment_folder) if not folder.name.startswith(_PIP_PREFIX)]


def list_pip_packages(environment_folder: Path) -> list[Path]:
    """Return the metadata folder of pip; empty if it is not installed."""
    return [folder for folder in _find_metadata(environment_folder) if folder.name.startswith(_PIP_PREFIX)]


def _find_metadata(environment_folder: Path) -> list[Path]:
    patterns = ("lib/python*/site-packages/*.dist-info", "Lib/site-packages/*.dist-info")
    return sorted({folder for pattern in patterns for folder in environment_folder.glob(pattern)})


def remove_incomplete_packages(environment_folder: Path) -> bool:
    """Remove the metadata of packages with missing or changed files: pip would regard them as installed.

    Returns:
        Whether there were such packages.
    """
    incomplete = [package for package in list_packages(environment_folder) if not is_whole(package)]
    for package in incomplete:
        shutil.rmtree(package)
    return bool(incomplete)


def is_whole(package: Path, *, with_sizes: bool = True) -> bool:
    """Return whether a package has its list of files, and every file in it, with as many bytes as the list says."""
    sizes = read_package_files(package)
    return bool(sizes) and has_files(package.parent, sizes if with_sizes else dict.fromkeys(sizes, 0))


def read_package_files(package: Path) -> FileSizes:
    """Return the files of a package, relative to its site-packages; empty if their list is damaged."""
    try:
        with (package / "RECORD").open(encoding="utf-8", newline="") as stream:
            sizes = parse_package_files(stream)
    except (OSError, ValueError, csv.Error):
        return {}
    return sizes if f"{package.name}/RECORD" in sizes else {}


def parse_package_files(lines: Iterable[str]) -> FileSizes:
    """Return the files in the lines of a RECORD, without compiled ones, which Python makes again."""
    rows = [row for row in csv.reader(lines) if row and not row[0].endswith(".pyc")]
    return {row[0]: int(row[2]) if row[2:] and row[2].isdecimal() else 0 for row in rows}


def has_files(folder: Path, sizes: FileSizes) -> bool:
    """Return whether all files are in a folder, with their numbers of bytes."""
    root = str(folder)  # os.path takes half the time of pathlib, and every start checks thousands of files
    for name, size in sizes.items():
        found = get_size(os.path.join(root, name))
        if found is None or size not in (0, found):
            return False
    return True


def get_size(path: str) -> int | None:
    """Return the bytes of a file; 0 for a folder, None if there is neither."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return 0 if stat.S_ISDIR(found.st_mode) else found.st_size


def measure_packages(environment_folder: Path) -> dict[str, FileSizes]:
    """Return the sizes of the modules and folders of every package, by its metadata folder.

    They are those of the first two levels, the RECORD among them: a start checks these in about 10 ms, all files would
    take 150 ms or more. Sizes are measured, because another package may have replaced a file.
    """
    measured = {}
    for package in list_packages(environment_folder):
        names = {"/".join(name.split("/")[:2]) for name in read_package_files(package) if not name.startswith("..")}
        sizes = {name: get_size(str(package.parent / name)) or 0 for name in sorted(names)}
        measured[package.relative_to(environment_folder).as_posix()] = sizes
    return measured


def has_packages(environment_folder: Path, measured: dict[str, FileSizes]) -> bool:
    """Return whether all packages that `measure_packages` found are still there, and as large."""
    return bool(measured) and all(
        has_files((environment_folder / package).parent, sizes) for package, sizes in measured.items()
    )


def has_modules(distribution: Distribution) -> bool:
    """Return whether the top-level modules of a package are there: its metadata may be all that is left.

    This is for interpreters that the user has set up. Sizes and deeper files are not compared there: conda and Linux
    distributions change files and leave out parts, such as tests. A module that was emptied is found.
    """
    record = distribution.read_text("RECORD")
    if record is None:  # Debian leaves it out
        names = (distribution.read_text("top_level.txt") or distribution.metadata["Name"].replace("-", "_")).split()
        return any(importlib.util.find_spec(name) is not None for name in names)
    lines = record.splitlines()
    modules = parse_package_files(line for line in lines if "/" not in line.replace("/__init__.py,", ",", 1))
    for name, size in modules.items():
        found = get_size(str(distribution.locate_file(name)))
        if found is None or (size > 0 and found == 0):
            return False
    return bool(lines)
