"""Groups of runs, such as a sweep over the values of one setting."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crlc.errors import CrlcError, NotFoundError
from crlc.runs.folder import RunFolder
from crlc.services.run_summary import RunSummary, summarize_run_or_damage
from crlc.training.settings import TrainSettings
from crlc.workspace.runs import RunStore
from crlc.workspace.workspace import Workspace

_INCIDENTAL_SETTINGS = ("seed", "epochs", "pretrain_epochs")
"""Settings that may differ beside the one of a sweep: repetitions have seeds, and time budgets plan the epochs."""


@dataclass(frozen=True)
class GroupedRun:
    """A run of a group."""

    value: Any
    """Its value of the setting that differs; `None` if several settings differ, or if it has no value of its own."""

    summary: RunSummary

    has_value: bool = True
    """Whether one setting differs."""

    metrics: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Newest value of every number in the metrics log, of which the summary has only the most important ones."""

    def format_value(self) -> str:
        """Return the value as text; empty if several settings differ."""
        if self.value is None:
            return "default" if self.has_value else ""
        return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)


@dataclass(frozen=True)
class RunGroup:
    """Runs with the same group name."""

    name: str
    setting: str | None
    """Name of the only setting that differs between the runs; `None` if there is no or more than one."""

    runs: tuple[GroupedRun, ...]
    """The runs, by ascending value, then oldest first."""

    def to_json(self) -> dict[str, Any]:
        """Return the content of `crlc runs --group --json`."""
        runs = [{"value": run.value, **run.summary.to_json()} for run in self.runs]
        return {"group": self.name, "setting": self.setting, "runs": runs}


def list_run_groups(workspace: Workspace) -> list[RunGroup]:
    """Return all groups of the workspace, that of the newest run first. Runs with damaged metadata are left out."""
    runs = RunStore(workspace)
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for run_id in runs.list_ids():
        try:
            metadata = runs.open(run_id).read_metadata()
            if (name := metadata.get("group")) is not None:
                settings = TrainSettings.from_json(metadata["settings"]).as_dict()
                found[str(name)] = [
                    *found.pop(str(name), []),
                    (run_id, settings),
                ]  # the group of the newest run is last
        except (CrlcError, KeyError, TypeError, ValueError):
            continue
    return [_build_group(runs, name, found[name]) for name in reversed(found)]


def find_run_group(workspace: Workspace, name: str) -> RunGroup:
    """Return the group with a name.

    Raises:
        NotFoundError: there is no such group; the advice suggests a similar one.
    """
    groups = {group.name: group for group in list_run_groups(workspace)}
    if name in groups:
        return groups[name]
    near = difflib.get_close_matches(name, groups, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(groups) or 'none yet'}."
    raise NotFoundError(f"No group of runs is named {name!r}.", advice=hint)


def find_swept_setting(settings: Sequence[dict[str, Any]]) -> str | None:
    """Return the name of the only setting that differs; epochs and seeds count only if nothing else differs."""
    first = settings[0]
    differing = [name for name in first if any(other[name] != first[name] for other in settings)]
    main = [name for name in differing if name not in _INCIDENTAL_SETTINGS] or differing
    return main[0] if len(main) == 1 else None


def _build_group(runs: RunStore, name: str, found: list[tuple[str, dict[str, Any]]]) -> RunGroup:
    setting = find_swept_setting([settings for _, settings in found])
    grouped = [
        GroupedRun(
            None if setting is None else settings[setting],
            summarize_run_or_damage(runs.open(run_id)),
            has_value=setting is not None,
            metrics=_read_metrics(runs.open(run_id)),
        )
        for run_id, settings in found
    ]
    if setting is not None:
        grouped.sort(key=lambda run: _rank_value(run.value))
    return RunGroup(name, setting, tuple(grouped))


def _read_metrics(run: RunFolder) -> dict[str, float]:
    """Return the newest value of every number in the metrics log; nothing if it cannot be read."""
    try:
        newest = run.metrics_log.summarize().metrics
    except (CrlcError, OSError):  # the summary has the reason
        return {}
    return {
        name: value for name, value in newest.items() if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def _rank_value(value: Any) -> tuple[int, float, str]:
    """Return a sort key for values of one setting that may differ in type: None, then numbers, then text."""
    if value is None:
        return 0, 0.0, ""
    return (1, float(value), "") if isinstance(value, (int, float)) else (2, 0.0, str(value))
