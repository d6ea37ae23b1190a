"""Runs as lists and tables show them; read again only when their files have changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from crlc.errors import CrlcError
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs

_METRICS = ("acc", "nmi", "ari", "cluster_information", "clusters_found", "largest_share", "subhead_agreement")


@dataclass(frozen=True)
class RunLine:
    """What a run is."""

    id: str
    dataset: str
    dataset_uid: str
    title: str
    """For people: the one that was given, or what it is."""

    created: str
    preset: str
    settings: dict[str, Any] = field(hash=False, compare=False)
    parent: str | None = None
    label: str = ""
    """The title, and a number where several runs have the same: boxes tell their options apart by it."""


@dataclass(frozen=True)
class RunOutcome:
    """How far a run got, and how good it is."""

    state: str
    """As people call it: `interrupted` is apart from `failed`."""

    message: str
    epoch: int
    epochs: int
    seconds: float
    metrics: dict[str, float | None] = field(hash=False, compare=False)


def run_lines(workspace: Workspace) -> list[RunLine]:
    """All runs whose description can be read, oldest first."""
    runs = Runs(workspace)
    lines = []
    for run_id in runs.ids():
        file = workspace.root / "runs" / run_id / "run.json"
        try:
            found = file.stat()
            lines.append(_line(file.parent, found.st_mtime_ns, found.st_size, found.st_ino))
        except (CrlcError, OSError, KeyError, TypeError, ValueError):
            continue  # damaged, or deleted this moment: there is nothing to show of it
    return labelled(lines)


def labelled(lines: Sequence[RunLine]) -> list[RunLine]:
    """Runs with labels of their own."""
    taken: set[str] = set()
    result = []
    for line in lines:
        numbered = (line.title if number == 1 else f"{line.title} ({number})" for number in count(1))
        label = next(one for one in numbered if one not in taken)
        taken.add(label)
        result.append(replace(line, label=label))
    return result


@lru_cache(maxsize=1024)
def _line(folder: Path, *_: int) -> RunLine:
    content = RunFolder(folder).description()
    settings = content["settings"]
    created = datetime.fromisoformat(content["created"]).astimezone()
    usual = f"{created:%d %b %H:%M} · {content['preset']} · {settings['clusters']} clusters"
    return RunLine(
        folder.name,
        content["dataset"],
        content["dataset_uid"],
        content.get("title") or usual,
        f"{created:%Y-%m-%d %H:%M}",
        content["preset"],
        settings,
        content.get("parent"),
    )


def outcome(run: RunFolder) -> RunOutcome:
    """How a run stands now.

    Raises:
        CrlcError: its files are damaged.
    """
    status = run.status()
    message = status.get("message") or ""
    interrupted = status["state"] == "failed" and message.startswith("interrupted")
    file = run.path / "metrics.jsonl"
    try:
        stamp = file.stat()
        seconds, metrics = _measured(run.path, stamp.st_mtime_ns, stamp.st_size)
    except FileNotFoundError:
        seconds, metrics = 0.0, dict.fromkeys(_METRICS)
    return RunOutcome(
        "interrupted" if interrupted else status["state"],
        message,
        status.get("epoch", 0),
        status.get("epochs", 0),
        seconds,
        dict(metrics),
    )


@lru_cache(maxsize=512)
def _measured(folder: Path, *_: int) -> tuple[float, dict[str, float | None]]:
    latest: dict[str, Any] = {}
    seconds = 0.0
    for record in RunFolder(folder).metrics():
        if record["kind"] != "step":
            latest |= {name: record[name] for name in _METRICS if record.get(name) is not None}
            seconds = record.get("timing", {}).get("seconds", seconds)
    return seconds, {name: latest.get(name) for name in _METRICS}
