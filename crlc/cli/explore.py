"""Command `explore`: map and provisional clusters without training."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crlc.analysis.maps.settings import DEFAULT_MAP_METHOD, MAP_METHODS
from crlc.cli.options import add_dataset_argument, add_device_argument, add_engine_argument
from crlc.cli.output import Output
from crlc.cli.tables import format_table, read_printable_paths, round_number
from crlc.formatting import format_duration
from crlc.workspace import Workspace

if TYPE_CHECKING:
    import torch

    from crlc.data.dataset import ImageDataset
    from crlc.services.exploration import Exploration
    from crlc.services.explore import ExplorationSettings


def add_explore_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `explore`."""
    add_dataset_argument(parser)
    parser.add_argument(
        "--clusters",
        type=int,
        metavar="C",
        help="number of provisional clusters (default: the number of ground-truth classes, else 10)",
    )
    parser.add_argument(
        "--method", default=DEFAULT_MAP_METHOD, choices=MAP_METHODS, help=f"map method (default: {DEFAULT_MAP_METHOD})"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of map and clusters (default: 0)")
    add_device_argument(parser)
    add_engine_argument(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="time a few images and print the expected duration, without exploring"
    )


def run_explore(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Compute pretrained features, their map and provisional k-means clusters."""
    import time
    from dataclasses import replace

    from crlc.analysis.class_metrics import compute_agreement
    from crlc.analysis.maps.settings import MapSettings
    from crlc.services.explore import ExplorationSettings, explore_dataset
    from crlc.training.device import choose_device

    settings = ExplorationSettings(options.clusters, MapSettings(options.method, options.seed), options.seed)
    if options.engine:
        settings = replace(settings, network=settings.network.replace(engine=options.engine))
    started = time.monotonic()
    dataset = workspace.open_dataset(options.dataset)
    device = choose_device(options.device)
    if options.dry_run:
        return _print_estimate(dataset, settings, device, output)
    found = explore_dataset(workspace, dataset, settings, device=device, report=output.progress)
    seconds = time.monotonic() - started
    classes = dataset.read_metadata(found.ids).class_numbers
    agreement = None if classes is None else compute_agreement(found.clusters, classes)
    clusters = _list_clusters(dataset, found)
    content = {
        "dataset": dataset.name,
        "provisional": True,
        "clusters": clusters,
        "classes": None
        if agreement is None
        else {name: round_number(value) for name, value in agreement._asdict().items()},
        "images": [
            {"id": number, "cluster": cluster, "x": round_number(x), "y": round_number(y)}
            for number, cluster, (x, y) in zip(
                found.ids.tolist(), found.clusters.tolist(), found.coordinates.tolist(), strict=True
            )
        ],
    }
    rows = [[str(row["cluster"]), f"{row['images']:,}", row["typical"]["path"]] for row in clusters]
    lines = [
        f"{dataset.name}: {len(found.ids):,} images explored in {format_duration(seconds)}, without training.",
        *format_table(("cluster", "images", "typical image"), rows),
        f"These clusters are provisional (k-means on {found.features_name}). "
        f"For better ones, run: crlc train {dataset.name}",
    ]
    if agreement is not None:
        lines.append(
            f"Against the ground truth: ACC {agreement.acc:.1%}, NMI {agreement.nmi:.3f}, ARI {agreement.ari:.3f}."
        )
    output.print_result(content, lines)
    return 0


def _list_clusters(dataset: ImageDataset, found: Exploration) -> list[dict[str, Any]]:
    """Return number, size and the most typical image of each cluster with images."""
    import numpy as np

    order = np.lexsort((found.distance, found.clusters))
    numbers, first, sizes = np.unique(found.clusters[order], return_index=True, return_counts=True)
    typical = found.ids[order[first]].tolist()
    paths = read_printable_paths(dataset, typical)
    return [
        {"cluster": number, "images": size, "typical": {"id": image, "path": paths[image]}}
        for number, size, image in zip(numbers.tolist(), sizes.tolist(), typical, strict=True)
    ]


def _print_estimate(dataset: ImageDataset, settings: ExplorationSettings, device: torch.device, output: Output) -> int:
    from crlc.services.explore_time import estimate_exploration

    estimate = estimate_exploration(dataset, settings, device)
    parts = [f"{name} {format_duration(seconds)}" for name, seconds in asdict(estimate).items() if seconds]
    lines = [
        f"{dataset.name}: exploring takes about {format_duration(estimate.seconds)}: {', '.join(parts)}."
        if parts
        else f"{dataset.name} is explored already."
    ]
    output.print_result({"dataset": dataset.name, "seconds": estimate.seconds, **asdict(estimate)}, lines)
    return 0
