"""Commands about existing runs: runs, show and stop."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from crlc.cli.output import Output
from crlc.cli.tables import format_table
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.services.run_summary import RunSummary

_BLOCKS = " ▁▂▃▄▅▆▇█"
_CURVE_CHARACTERS = 60


def run_stop(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Stop a running run after its current step."""
    from crlc.services.train import stop_run

    run, state = stop_run(workspace, options.run)
    output.print_result(
        {"run": run.id, "state": state}, [f"{run.id} is {state}. To continue, run: crlc resume {run.id}"]
    )
    return 0


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `runs`."""
    parser.add_argument("--group", metavar="NAME", help="list the runs of one group, with the setting that differs")


def run_runs(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """List all runs, or those of a group."""
    if options.group is not None:
        return _run_group(options.group, workspace, output)
    from crlc.services.run_summary import DAMAGED, UNREADABLE, summarize_run_or_damage
    from crlc.workspace.runs import RunStore

    runs = RunStore(workspace)
    summaries = [summarize_run_or_damage(runs.open(run_id)) for run_id in runs.list_ids()]
    rows = [
        [
            summary.run,
            summary.state,
            f"{summary.epoch}/{summary.epochs}",
            _format_metric(summary.accuracy, ".1%"),
            _format_metric(summary.metrics["cluster_information"], ".3f"),
        ]
        for summary in summaries
    ]
    if rows:
        lines = format_table(("run", "state", "epoch", "accuracy", "information"), rows)
    else:
        lines = ["No runs yet. To train one, run: crlc train digits"]
    lines += [f"{summary.run}: {summary.message}" for summary in summaries if summary.state in (DAMAGED, UNREADABLE)]
    output.print_result({"runs": [summary.to_json() for summary in summaries]}, lines)
    return 0


def _run_group(name: str, workspace: Workspace, output: Output) -> int:
    from crlc.services.run_groups import find_run_group

    group = find_run_group(workspace, name)
    rows = [
        [
            run.format_value(),
            run.summary.run,
            run.summary.state,
            _format_metric(run.summary.accuracy, ".1%"),
            _format_metric(run.summary.metrics["cluster_information"], ".3f"),
        ]
        for run in group.runs
    ]
    lines = format_table((group.setting or "settings", "run", "state", "accuracy", "information"), rows)
    output.print_result(group.to_json(), lines)
    return 0


def run_show(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Show the state, metrics and settings of one run."""
    from crlc.services.run_summary import summarize_run
    from crlc.workspace.runs import RunStore

    run = RunStore(workspace).open(options.run)
    summary, metadata = summarize_run(run), run.read_metadata()
    epochs = [record.get("cluster_information") for record in run.metrics_log.read() if record.get("kind") == "epoch"]
    information = [value for value in epochs if value is not None]
    preset = metadata.get("preset", "unknown")
    lines = [
        f"{run.id}: {summary.state}, epoch {summary.epoch} of {summary.epochs}, preset {preset}",
        *([summary.message] if summary.message else []),
        *format_metrics(summary),
        *([f"Cluster information  {draw_curve(information)}"] if information else []),
    ]
    output.print_result({**summary.to_json(), "settings": metadata["settings"]}, lines)
    return 0


def format_metrics(summary: RunSummary) -> list[str]:
    """Return the metrics and warnings of a run as lines of text; empty before the first epoch."""
    metrics = summary.metrics
    if metrics["cluster_information"] is None:
        return []
    lines = [
        f"Cluster information {metrics['cluster_information']:.3f}, {metrics['clusters_found']} clusters found, "
        f"largest cluster {_format_metric(metrics['largest_share'], '.0%')} of the images."
    ]
    if metrics["acc"] is not None:
        accuracy = f"ACC {metrics['acc']:.1%}"
        if metrics["classification_accuracy"] is not None:
            accuracy = f"classification accuracy {metrics['classification_accuracy']:.1%} without labelled images"
        lines.append(
            f"Against the ground truth: {accuracy}, NMI {_format_metric(metrics['nmi'], '.3f')}, "
            f"ARI {_format_metric(metrics['ari'], '.3f')}."
        )
    if metrics["oracle_acc"] is not None:
        lines.append(
            "Oracle, for comparison with the paper: the best subhead by ground truth has ACC "
            f"{metrics['oracle_acc']:.1%}, at its best epoch {_format_metric(metrics['oracle_acc_any_epoch'], '.1%')}."
        )
    return [*lines, *(_format_warning(warning) for warning in summary.warnings)]


def draw_curve(values: list[float]) -> str:
    """Return numbers from 0 to 1 as a line of at most 60 block characters."""
    step = max(1, -(-len(values) // _CURVE_CHARACTERS))
    highest = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round(max(0.0, min(1.0, value)) * highest)] for value in values[step - 1 :: step])


def _format_warning(warning: dict[str, Any]) -> str:
    return " ".join(["Warning:", warning["text"], *filter(None, [warning.get("advice")])])


def _format_metric(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
