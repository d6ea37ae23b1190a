"""The table of runs as plain rows, and which runs are shown together at first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def rows_of(runs: Runs, lines: Sequence[RunLine]) -> list[dict[str, Any]]:
    """One row for each run; one whose files are damaged says so."""
    rows = []
    for line in lines:
        row: dict[str, Any] = {"Run": line.label, "Data set": line.dataset}
        try:
            found = outcome(runs.open(line.id))
        except (CrlcError, KeyError, ValueError):
            rows.append({**row, "State": "damaged"})
            continue
        rows.append(
            {
                **row,
                "State": found.state,
                "Epochs": f"{found.epoch:,} of {found.epochs:,}",
                "Information": found.metrics["cluster_information"],
                "ACC": found.metrics["acc"],
                "NMI": found.metrics["nmi"],
                "ARI": found.metrics["ari"],
                "Clusters": line.settings["clusters"],
                "Time": duration(found.seconds) if found.seconds else "",
                "Begun": line.created,
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
