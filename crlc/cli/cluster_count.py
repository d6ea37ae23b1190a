"""Command `count`: suggested number of clusters."""

from __future__ import annotations

import argparse

from crlc.cli.options import add_dataset_argument, add_device_argument
from crlc.cli.output import Output
from crlc.workspace import Workspace


def add_count_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `count`."""
    add_dataset_argument(parser)
    parser.add_argument(
        "--most", type=int, metavar="N", help="largest number of clusters to try, from 3 to 100 (default: 60)"
    )
    add_device_argument(parser)


def run_count(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Suggest a number of clusters for a dataset."""
    from crlc.analysis.cluster_count import DEFAULT_MAX_CLUSTERS
    from crlc.services.cluster_count import suggest_for_dataset
    from crlc.training.device import choose_device

    dataset, device = workspace.open_dataset(options.dataset), choose_device(options.device)
    most = DEFAULT_MAX_CLUSTERS if options.most is None else options.most
    found = suggest_for_dataset(workspace, dataset, device, max_clusters=most, report=output.progress)
    lines = [f"{dataset.name}: {found.count.suggestion} clusters suggested, based on {found.read_from}."]
    lines.append(found.reason)
    output.print_result({"dataset": dataset.name, **found.to_json()}, lines)
    return 0
