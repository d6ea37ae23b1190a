"""Command `features`: compute the features of photographs, with several processes or machines if wanted."""

from __future__ import annotations

import argparse

from crlc.cli.launcher import launch_processes
from crlc.cli.options import (
    add_dataset_argument,
    add_device_argument,
    add_devices_argument,
    add_engine_argument,
)
from crlc.cli.output import Output
from crlc.workspace import Workspace


def add_features_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `features`."""
    add_dataset_argument(parser)
    add_device_argument(parser)
    add_devices_argument(parser)
    add_engine_argument(parser)


def run_features(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Compute the features that are missing; each process computes an equal part."""
    from crlc.data.options import PHOTOGRAPH_SIZE
    from crlc.progress import no_progress
    from crlc.services.features import compute_default_features
    from crlc.services.run_preparation import store_pixels
    from crlc.training.device import choose_device
    from crlc.training.distributed import join_processes

    dataset = workspace.open_dataset(options.dataset)
    if options.devices != 1:
        return launch_processes(options.devices)
    device = choose_device(options.device)
    with join_processes(device.type) as world:
        report = output.progress if world.is_rank_zero else no_progress
        world.run_on_rank_zero(lambda: store_pixels(workspace, dataset, PHOTOGRAPH_SIZE, report).name)
        dataset = workspace.open_dataset(options.dataset)
        computed = compute_default_features(
            dataset, engine=options.engine or "auto", device=device, world=world, report=report
        )
        if world.is_rank_zero:
            content = {"dataset": dataset.name, "computed": computed, "processes": world.size}
            processes = "" if world.size == 1 else f" by {world.size} processes"
            output.print_result(content, [f"{dataset.name}: features of {computed:,} images computed{processes}."])
    return 0
