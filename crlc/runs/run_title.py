"""Name of a run for people: the title that the user gave, or start time, preset and number of clusters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from crlc.errors import CrlcError, UsageError
from crlc.runs.folder import RunFolder

MAX_TITLE_LENGTH = 80

_PRESET_NAMES = {"semi": "with labels"}
"""Presets whose name for people is not the one in the metadata."""

_UNKNOWN = "run"
"""Name of a run whose metadata has none of the parts."""

_NOT_IN_FILE_NAMES = re.compile(r"[^\w.-]+")


def normalize_title(title: str) -> str:
    """Return a title for the metadata of a run, without superfluous spaces.

    Raises:
        UsageError: the title is too long.
    """
    title = " ".join(title.split())
    if len(title) > MAX_TITLE_LENGTH:
        raise UsageError(
            f"A title with {len(title)} characters is not allowed: it may have at most {MAX_TITLE_LENGTH}."
        )
    return title


def format_run_title(metadata: Mapping[str, Any]) -> str:
    """Return the name of a run, without the parts that its metadata does not have.

    Args:
        metadata: content of run.json.
    """
    preset, clusters = metadata.get("preset", ""), metadata["settings"].get("clusters")
    shown = (
        _format_start(metadata.get("created", "")),
        _PRESET_NAMES.get(preset, preset),
        f"{clusters} clusters" if isinstance(clusters, int) else "",
    )
    return metadata.get("title") or " · ".join(filter(None, shown)) or _UNKNOWN


def _format_start(created: str) -> str:
    try:
        return f"{datetime.fromisoformat(created).astimezone():%d %b %H:%M}"
    except (ValueError, OverflowError):  # no date, or one that this computer cannot convert to its time zone
        return ""


def read_run_title(run: RunFolder) -> str:
    """Return the name of a run for a message; its id if its metadata is damaged."""
    try:
        return format_run_title(run.read_metadata())
    except (CrlcError, OSError):
        return run.id


def build_file_stem(dataset: str, title: str) -> str:
    """Return dataset and name of a run as the beginning of a file name, without spaces and punctuation."""
    return "-".join(filter(None, (dataset, _NOT_IN_FILE_NAMES.sub("-", title).strip("-."))))
