"""Folders of this installation: the packages of a checkout, or those of an installed wheel."""

from __future__ import annotations

import site
from pathlib import Path

PACKAGE_ROOT = Path(__file__).resolve().parents[1]
"""Folder that contains the package `crlc`."""

_STUDIO_FOLDER = "crlc_studio"
"""Folder of `app` and `assets` in a wheel: both names are too common for the top level of site-packages."""


def get_studio_folder(root: Path = PACKAGE_ROOT) -> Path:
    """Return the folder that contains `app` and `assets`: the checkout, or `crlc_studio` beside an installed `crlc`."""
    installed = root / _STUDIO_FOLDER
    return installed if installed.is_dir() else root


def is_found_by_python(folder: Path = PACKAGE_ROOT) -> bool:
    """Return whether every process of this interpreter finds the packages of a folder by itself (site-packages)."""
    return folder in {Path(found).resolve() for found in (*site.getsitepackages(), site.getusersitepackages())}
