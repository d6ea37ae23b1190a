"""Name of a run for people: the title that the user gave, or start time, preset and number of clusters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from crlc.errors import CrlcError
from crlc.runs.folder import RunFolder

_PRESET_NAMES = {"semi": "with labels"}
"""Presets whose name for people is not the one in the metadata."""

_NOT_IN_FILE_NAMES = re.compile(r"[^\w.-]+")


def format_run_title(metadata: Mapping[str, Any]) -> str:
    """Return the name of a run.

    Args:
        metadata: content of run.json.

    Raises:
        KeyError, TypeError, ValueError: run.json is damaged.
    """
    created = datetime.fromisoformat(metadata["created"]).astimezone()
    preset = _PRESET_NAMES.get(metadata["preset"], metadata["preset"])
    default = f"{created:%d %b %H:%M} · {preset} · {metadata['settings']['clusters']} clusters"
    return metadata.get("title") or default


def read_run_title(run: RunFolder) -> str:
    """Return the name of a run for a message; its id if its metadata is damaged."""
    try:
        return format_run_title(run.read_metadata())
    except (CrlcError, OSError, KeyError, TypeError, ValueError):
        return run.id


def build_file_stem(dataset: str, title: str) -> str:
    """Return dataset and name of a run as the beginning of a file name, without spaces and punctuation."""
    return "-".join(filter(None, (dataset, _NOT_IN_FILE_NAMES.sub("-", title).strip("-."))))
