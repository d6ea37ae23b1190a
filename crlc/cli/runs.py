"""Commands about runs that exist: stop, runs, show."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from crlc.cli.output import Output, table
from crlc.errors import CrlcError, UsageError
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.training.run_folder import RunFolder

_STOP_PATIENCE_SECONDS = 60
_CURVE = " ▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 60
_DAMAGED = "damaged"
_METRICS = ("acc", "nmi", "ari", "cluster_information", "clusters_found", "largest_share")


def run_argument(parser: argparse.ArgumentParser) -> None:
    """Options of `stop` and `show`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")


def run_stop(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Ask a run to stop, and wait until it has."""
    from crlc.workspace.runs import Runs

    run = Runs(workspace).open(options.run)
    if run.status()["state"] != "running":
        raise UsageError(f"{run.id} is not running: it is {run.status()['state']}.")
    run.ask_to_stop()
    deadline = time.monotonic() + _STOP_PATIENCE_SECONDS
    while (state := run.status()["state"]) == "running":
        if time.monotonic() > deadline:
            raise CrlcError(
                f"{run.id} has not stopped after {_STOP_PATIENCE_SECONDS} s; it will after its present step."
            )
        time.sleep(0.1)
    output.result({"run": run.id, "state": state}, [f"{run.id} is {state}. Go on with: crlc resume {run.id}"])
    return 0


def run_runs(_: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """List all runs."""
    from crlc.workspace.runs import Runs

    runs = Runs(workspace)
    content = [_summary_or_damage(runs.open(run_id)) for run_id in runs.ids()]
    rows = [
        [
            c["run"],
            c["state"],
            f"{c['epoch']}/{c['epochs']}",
            _share(c["metrics"]["acc"]),
            _number(c["metrics"]["cluster_information"]),
        ]
        for c in content
    ]
    lines = (
        table(("run", "state", "epoch", "acc", "information"), rows)
        if rows
        else ["No runs yet. Begin with: crlc train digits"]
    )
    lines += [f"{c['run']}: {c['message']}" for c in content if c["state"] == _DAMAGED]
    output.result({"runs": content}, lines)
    return 0


def run_show(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """One run: what it is, how far it got, and its curve."""
    from crlc.workspace.runs import Runs

    run = Runs(workspace).open(options.run)
    content, description = summary(run), run.description()
    epochs = [record["cluster_information"] for record in run.metrics() if record["kind"] == "epoch"]
    information = [value for value in epochs if value is not None]
    lines = [
        f"{run.id}: {content['state']}, epoch {content['epoch']} of {content['epochs']}, "
        f"preset {description['preset']}",
        *([content["message"]] if content["message"] else []),
        *metric_lines(content),
        *([f"Cluster information  {curve(information)}"] if information else []),
    ]
    output.result({**content, "settings": description["settings"]}, lines)
    return 0


def summary(run: RunFolder) -> dict[str, Any]:
    """What `train --json` prints, for any run."""
    status = run.status()
    latest: dict[str, Any] = {}
    warnings: dict[str, Any] = {}
    for record in run.metrics():
        if record["kind"] == "step":
            continue
        latest |= record
        if record["kind"] == "epoch":  # of clusters only the newest word counts
            warnings = {kind: one for kind, one in warnings.items() if kind == "small-batch"}
        warnings |= {warning["kind"]: warning for warning in record.get("warnings", ())}
    timing = latest.get("timing", {})
    return {
        "run": run.id,
        "state": status["state"],
        "message": status.get("message"),
        "dataset": run.description()["dataset"],
        "stage": status.get("stage"),
        "warnings": list(warnings.values()),
        "metrics": {name: latest.get(name) for name in _METRICS},
        "epoch": status["epoch"],
        "epochs": status["epochs"],
        "seconds": timing.get("seconds", 0.0),
        "images_per_second": timing.get("images_per_second"),
        "peak_memory_mb": timing.get("memory_mb"),
    }


def _summary_or_damage(run: RunFolder) -> dict[str, Any]:
    """A summary also of a run whose files cannot be read: the others are to be listed nevertheless."""
    try:
        return summary(run)
    except (CrlcError, KeyError, ValueError) as error:
        why = (
            str(error) if isinstance(error, CrlcError) else f"{run.path} holds a file that cannot be read ({error!r})."
        )
        nothing = dict.fromkeys(("dataset", "stage", "images_per_second", "peak_memory_mb"))
        return {
            **{"run": run.id, "state": _DAMAGED, "message": why, **nothing, "warnings": []},
            **{"metrics": dict.fromkeys(_METRICS), "epoch": 0, "epochs": 0, "seconds": 0.0},
        }


def metric_lines(content: dict[str, Any]) -> list[str]:
    """The metrics of a summary in words, with what there is to be warned of."""
    metrics = content["metrics"]
    if metrics["cluster_information"] is None:
        return []
    lines = [
        f"Cluster information {metrics['cluster_information']:.3f}, clusters found {metrics['clusters_found']}, "
        f"the largest holds {metrics['largest_share']:.0%}."
    ]
    if metrics["acc"] is not None:
        lines.append(
            f"Against the classes: ACC {metrics['acc']:.1%}, NMI {metrics['nmi']:.3f}, ARI {metrics['ari']:.3f}."
        )
    return [*lines, *(" ".join(_warning_words(warning)) for warning in content["warnings"])]


def _warning_words(warning: dict[str, str]) -> list[str]:
    return ["Warning:", warning["text"], *filter(None, [warning.get("advice")])]


def curve(values: list[float]) -> str:
    """Numbers from 0 to 1 as a line of blocks, at most 60 of them."""
    step = max(1, -(-len(values) // _CURVE_WIDTH))
    return "".join(_CURVE[round(max(0.0, min(1.0, value)) * (len(_CURVE) - 1))] for value in values[step - 1 :: step])


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
