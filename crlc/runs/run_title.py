"""Name of a run for people: the title that the user gave, or start time, preset and number of clusters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

_NOT_IN_FILE_NAMES = re.compile(r"[^\w.-]+")


def format_run_title(metadata: Mapping[str, Any]) -> str:
    """Return the name of a run.

    Args:
        metadata: content of run.json.

    Raises:
        KeyError, TypeError, ValueError: run.json is damaged.
    """
    created = datetime.fromisoformat(metadata["created"]).astimezone()
    default = f"{created:%d %b %H:%M} · {metadata['preset']} · {metadata['settings']['clusters']} clusters"
    return metadata.get("title") or default


def build_file_stem(dataset: str, title: str) -> str:
    """Return dataset and name of a run as the beginning of a file name, without spaces and punctuation."""
    return "-".join(filter(None, (dataset, _NOT_IN_FILE_NAMES.sub("-", title).strip("-."))))
