"""List of the runs of a workspace, and the table of the Runs page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

from crlc.errors import CrlcError, NotFoundError, explain_system_error
from crlc.formatting import format_duration
from crlc.runs.folder import RunFolder
from crlc.runs.run_title import format_run_title
from crlc.services.run_summary import RunSummary, summarize_run
from crlc.training.metric_names import CLASSIFICATION_ACCURACY, ORACLE_ACC, ORACLE_ACC_ANY_EPOCH
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

METRIC_TITLES = {
    "cluster_information": "Cluster information",
    "loss": "Loss (nats)",
    "acc": "ACC",
    CLASSIFICATION_ACCURACY: "Accuracy (runs with labels)",
    "nmi": "NMI",
    "ari": "ARI",
    ORACLE_ACC: "ACC of the best subhead (oracle)",
    "oracle_nmi": "NMI of the best subhead (oracle)",
    "oracle_ari": "ARI of the best subhead (oracle)",
    ORACLE_ACC_ANY_EPOCH: "ACC of the best subhead at its best epoch (oracle)",
    "largest_share": "Largest cluster",
    "probability": "L_PC (nats)",
    "feature": "L_FC (nats)",
    "probability_bound": "InfoNCE bound of L_PC (nats)",
    "feature_bound": "InfoNCE bound of L_FC (nats)",
    "entropy": "Entropy of the mean probabilities (nats)",
    "penalty": "Penalty on large logits",
    "labels": "Cross-entropy on labels (nats)",
    "learning_rate": "Learning rate",
    "clusters_found": "Clusters found",
    "subhead_agreement": "Agreement of subheads",
}
"""Titles of metrics, the most important first; `format_metric_title` names any other."""

FRACTION_METRICS = frozenset(
    (
        "cluster_information",
        "acc",
        CLASSIFICATION_ACCURACY,
        "nmi",
        "ari",
        ORACLE_ACC,
        "oracle_nmi",
        "oracle_ari",
        ORACLE_ACC_ANY_EPOCH,
        "largest_share",
        "subhead_agreement",
    )
)
"""Metrics whose values are from 0 to 1."""

_NOT_METRICS = frozenset(("step", "epoch", "clusters", "subhead"))
_MAX_COMPARED_RUNS = 5


@dataclass(frozen=True)
class RunEntry:
    """A run in a list of runs."""

    id: str
    dataset: str
    dataset_uid: str
    title: str
    """The title that the user gave, or start time, preset and number of clusters."""

    created: str
    preset: str
    settings: dict[str, Any] = field(hash=False, compare=False)
    parent: str | None = None
    unique_title: str = ""
    """The title, with a number if several runs have the same: widgets identify their options by it."""


class DamagedRun(NamedTuple):
    """A run whose metadata cannot be read."""

    id: str
    problem: str


def list_runs(workspace: Workspace) -> list[RunEntry]:
    """Return all runs whose metadata can be read, oldest first; a file is read again only when it has changed."""
    return assign_unique_titles([entry for entry in _iterate_runs(workspace) if isinstance(entry, RunEntry)])


def list_damaged_runs(workspace: Workspace) -> list[DamagedRun]:
    """Return the runs whose metadata cannot be read, oldest first."""
    return [entry for entry in _iterate_runs(workspace) if isinstance(entry, DamagedRun)]


def _iterate_runs(workspace: Workspace) -> Iterator[RunEntry | DamagedRun]:
    for run_id in RunStore(workspace).list_ids():
        file = workspace.root / "runs" / run_id / "run.json"
        try:
            found = file.stat()
            yield _read_entry(file.parent, found.st_mtime_ns, found.st_size, found.st_ino)
        except FileNotFoundError:
            continue  # just deleted
        except (CrlcError, OSError) as error:
            yield DamagedRun(run_id, str(explain_system_error(error, file) or error))
        except (KeyError, TypeError, ValueError) as error:
            yield DamagedRun(run_id, f"{file} cannot be read ({error!r}).")


def get_run_title(workspace: Workspace, run_id: str) -> str:
    """Return the name of a run on every page: its title, or start time, preset and clusters; the id if it is gone."""
    return next((entry.unique_title for entry in list_runs(workspace) if entry.id == run_id), run_id)


def format_run_error(workspace: Workspace, run_id: str, error: NotFoundError) -> str:
    """Return the message of an error about a run with the title of the run instead of its id."""
    return str(error).replace(run_id, get_run_title(workspace, run_id))


def assign_unique_titles(entries: Sequence[RunEntry]) -> list[RunEntry]:
    """Return the runs with unique titles: the second run called `a` is `a (2)`."""
    taken: set[str] = set()
    result = []
    for entry in entries:
        candidates = (entry.title if number == 1 else f"{entry.title} ({number})" for number in count(1))
        title = next(candidate for candidate in candidates if candidate not in taken)
        taken.add(title)
        result.append(replace(entry, unique_title=title))
    return result


@lru_cache(maxsize=1024)
def _read_entry(folder: Path, *_: int) -> RunEntry:
    content = RunFolder(folder).read_metadata()
    settings = content["settings"]
    if "clusters" not in settings:  # the pages show it
        raise KeyError("settings.clusters")
    created = datetime.fromisoformat(content["created"]).astimezone()
    return RunEntry(
        folder.name,
        content["dataset"],
        content["dataset_uid"],
        format_run_title(content),
        f"{created:%Y-%m-%d %H:%M}",
        content["preset"],
        settings,
        content.get("parent"),
    )


def list_metrics(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the metrics that a metrics log has values of: those with a title first, then the others by name."""
    found = {
        name
        for record in records
        if record.get("kind") in ("epoch", "end")
        for name, value in record.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and name not in _NOT_METRICS
    }
    return [name for name in METRIC_TITLES if name in found] + sorted(found - METRIC_TITLES.keys())


def format_metric_title(name: str) -> str:
    """Return the title of a metric for a list or an axis."""
    return METRIC_TITLES.get(name) or name.replace("_", " ").capitalize()


class TableColumn(NamedTuple):
    """Format and help text of a column of the table."""

    help: str
    format: str | None = None
    """Format of numbers; `None` for text."""

    width: Literal["small", "medium", "large"] | int | None = None


COLUMNS = {
    "Run": TableColumn("Title of the run. Rename it below the table.", width=212),
    "Dataset": TableColumn("Dataset that the run was trained on.", width=80),
    "State": TableColumn(
        "Finished, running, stopped, failed, or interrupted (its process was killed). Stopped and interrupted runs can "
        "be resumed on the Train page, which also shows why a run failed.",
        width=80,
    ),
    "Clusters": TableColumn("Number of clusters.", "%d", 65),
    "Epochs": TableColumn("Finished epochs, and the planned number of epochs.", width=80),
    "Accuracy": TableColumn(
        "Percentage of images in the cluster matched to their ground-truth class (ACC). For runs with labels: "
        "percentage of images without a label whose cluster has the name of their class. Empty without classes.",
        "percent", 75,
    ),
    "NMI": TableColumn(
        "Normalised mutual information of clusters and classes: 0 = independent, 1 = identical.", "%.3f", 60
    ),
    "ARI": TableColumn("Adjusted Rand index of clusters and classes: 0 = random, 1 = identical.", "%.3f", 60),
    "Cluster information": TableColumn(
        "Mutual information between the clusters of two views, 0 to 1. Higher is better. It needs "
        "no classes.",
        "%.2f", 122,
    ),
    "Time": TableColumn("Training time, without queueing and preparation.", width=80),
}  # fmt: skip


def build_rows(runs: RunStore, entries: Sequence[RunEntry]) -> list[dict[str, Any]]:
    """Return one row of the table per run; runs with damaged files have the state `damaged`.

    Args:
        runs: runs of the workspace.
        entries: the runs to show. The table has a dataset column if they have several datasets.
    """
    has_several_datasets = len({entry.dataset for entry in entries}) > 1
    rows = []
    for entry in entries:
        row: dict[str, Any] = {
            "Run": entry.unique_title,
            **({"Dataset": entry.dataset} if has_several_datasets else {}),
        }
        try:
            summary = summarize_run(runs.open(entry.id))
        except (CrlcError, KeyError, ValueError):
            rows.append({**row, "State": "damaged"})
            continue
        rows.append(
            {
                **row,
                "State": summary.state,
                "Clusters": entry.settings["clusters"],
                "Epochs": f"{summary.epoch:,} of {summary.epochs:,}",
                "Accuracy": summary.accuracy,
                "NMI": summary.metrics["nmi"],
                "ARI": summary.metrics["ari"],
                "Cluster information": summary.metrics["cluster_information"],
                "Time": format_duration(summary.seconds) if summary.seconds else "",
            }
        )
    return rows


ORACLE_HELP = (
    "The oracle picks the best subhead (and epoch) by the ground-truth classes, as the evaluation of the paper does. "
    "CRLC Studio selects without classes. Compare the oracle only with published numbers."
)
"""Reason for the numbers of `format_oracle`."""


def format_oracle(summary: RunSummary) -> str:
    """Return the accuracy of the selected subhead and of the oracle; empty without ground-truth classes."""
    best, best_epoch = summary.metrics[ORACLE_ACC], summary.metrics[ORACLE_ACC_ANY_EPOCH]
    if best is None or summary.accuracy is None:
        return ""
    at_best_epoch = "" if best_epoch is None else f", at its best epoch {best_epoch:.1%}"
    return f"Accuracy {summary.accuracy:.1%}. Oracle, chosen by classes: best subhead {best:.1%} ACC{at_best_epoch}."


def select_runs_to_compare(entries: Sequence[RunEntry], current: RunEntry | None) -> list[str]:
    """Return the ids of the runs whose curves are shown at first: the current one, then the newest of its dataset.

    Args:
        entries: all runs, newest first.
        current: the run to start with; `None` for the newest.
    """
    first = current or (entries[0] if entries else None)
    if first is None:
        return []
    others = [entry.id for entry in entries if entry.dataset_uid == first.dataset_uid and entry.id != first.id]
    return [first.id, *others[: _MAX_COMPARED_RUNS - 1]]
