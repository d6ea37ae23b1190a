"""Errors of the setup, with an explanation of the output of failed commands."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

SPACE_NEEDED = "about 7 GB (most of it torch; 2 GB without CUDA)"
_MIN_FREE_BYTES = 20_000_000

# Patterns in the output of pip or venv, and their meaning for the user. The first match is shown.
_MEANINGS = (
    (
        r"No space left on device|Errno 28|not enough space|disk quota",
        "the disk is full: {space} are needed, {free} are free in {folder}",
    ),
    (
        r"Failed to establish a new connection|Temporary failure in name resolution|getaddrinfo failed|"
        r"Name or service not known|Network is unreachable|Connection refused|ConnectTimeout|ReadTimeout|ProxyError",
        "the package server cannot be reached. Check the internet connection (or the proxy), then start again",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError|confirming the ssl certificate",
        "the certificate of the package server is not trusted. Check the date of this computer; in the network of a "
        "company, set the variable PIP_CERT to the file with its certificate. Then start again",
    ),
    (
        r"MemoryError|Cannot allocate memory|Not enough memory",
        "there is not enough memory. Close other programs, then start again",
    ),
    (
        r"No matching distribution found|requires a different Python",
        "a package has no version for Python {python}, which may be too old or too new. "
        "Install Python 3.12 from python.org and start with that one",
    ),
    (
        r"Permission denied|Access is denied|Operation not permitted|Read-only file system",
        "permission denied while writing to {root}. Check the permissions of that folder",
    ),
)


class SetupError(Exception):
    """Raised when the environment cannot be prepared; the message gives the reason and the next step."""


def explain_failure(output: str, otherwise: str, root: Path) -> str:
    """Return a one-line explanation of the output of a failed command.

    Args:
        output: what the command printed.
        otherwise: the explanation of an output that matches no known pattern.
        root: folder that contains the environment.
    """
    # pip unpacks in the temporary folder, which may be on a smaller disk.
    free, folder = min((shutil.disk_usage(folder).free, folder) for folder in {str(root), find_temporary_folder(root)})
    for pattern, meaning in _MEANINGS:
        # On a full disk even the error may be missing from the log: the first entry covers that.
        if re.search(pattern, output, re.IGNORECASE) or free < _MIN_FREE_BYTES:
            reason = meaning.format(
                space=SPACE_NEEDED,
                free=f"{free / 1e9:.1f} GB",
                root=root,
                folder=folder,
                python="{}.{}".format(*sys.version_info[:2]),
            )
            return f"the setup failed: {reason}. The next start continues."
    return f"the setup failed: {otherwise} The next start continues."


def find_temporary_folder(otherwise: Path) -> str:
    """Return the folder for temporary files, or another one: Python finds none if all disks are full or read-only."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return str(otherwise)


def get_last_line(output: str) -> str:
    """Return the last line that is not empty."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
