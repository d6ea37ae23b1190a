"""The table of runs as plain rows, and which runs are shown together at first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from app.run_lines import RunLine, outcome
from crlc.cli.output import duration
from crlc.errors import CrlcError
from crlc.workspace.runs import Runs

NAMES = {
    "cluster_information": "Cluster information",
    "loss": "Loss (nats)",
    "acc": "ACC",
    "nmi": "NMI",
    "ari": "ARI",
    "largest_share": "Largest cluster",
}
_TOGETHER = 5


class Column(NamedTuple):
    """How a column of the table is shown, and what it means."""

    help: str
    format: str | None = None
    """Of numbers; none for text."""

    width: str | int | None = None


COLUMNS = {
    "Run": Column("Its title; rename it below the table.", width="medium"),
    "Data set": Column("The images it was trained on.", width=90),
    "State": Column(
        "finished; running; stopped or interrupted (its process was killed): both can be resumed on the Train page; "
        "failed: the Train page says why.",
        width=85,
    ),
    "Clusters": Column("How many groups it was asked to find.", "%d", 70),
    "Epochs": Column("How often all images were gone through, of how often that was asked for.", width=80),
    "ACC": Column(
        "Accuracy against the classes that came with the data, in %: the share of images in the cluster that matches "
        "their class. Empty where no classes are known.",
        "percent", 70,
    ),
    "NMI": Column(
        "Normalised mutual information of clusters and classes, from 0 (nothing in common) to 1 (the same).", "%.3f", 65
    ),
    "ARI": Column("Adjusted Rand index of clusters and classes: 1 for the same, 0 as by chance.", "%.3f", 65),
    "Information": Column(
        "Cluster information, from 0 to 1: how much one view of an image tells of the cluster of another. Higher is "
        "better; no classes are needed for it.",
        "%.2f", 95,
    ),
    "Time": Column("Spent on training, without waiting in the queue and preparing.", width=90),
}  # fmt: skip


def rows_of(runs: Runs, lines: Sequence[RunLine]) -> list[dict[str, Any]]:
    """One row for each run; one whose files are damaged says so. The data set is told where there are several."""
    several = len({line.dataset for line in lines}) > 1
    rows = []
    for line in lines:
        row: dict[str, Any] = {"Run": line.label, **({"Data set": line.dataset} if several else {})}
        try:
            found = outcome(runs.open(line.id))
        except (CrlcError, KeyError, ValueError):
            rows.append({**row, "State": "damaged"})
            continue
        rows.append(
            {
                **row,
                "State": found.state,
                "Clusters": line.settings["clusters"],
                "Epochs": f"{found.epoch:,} of {found.epochs:,}",
                "ACC": found.metrics["acc"],
                "NMI": found.metrics["nmi"],
                "ARI": found.metrics["ari"],
                "Information": found.metrics["cluster_information"],
                "Time": duration(found.seconds) if found.seconds else "",
            }
        )
    return rows


def together(lines: Sequence[RunLine], chosen: RunLine | None) -> list[str]:
    """The runs whose curves are shown at first: the chosen one, then the newest of the same data set.

    Args:
        lines: newest first.
        chosen: none for the newest of all.
    """
    first = chosen or (lines[0] if lines else None)
    if first is None:
        return []
    others = [line.id for line in lines if line.dataset_uid == first.dataset_uid and line.id != first.id]
    return [first.id, *others[: _TOGETHER - 1]]
