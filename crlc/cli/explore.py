"""`crlc explore`: a data set before any training."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from crlc.cli.output import Output, TerminalProgress, duration, table
from crlc.workspace import Workspace

if TYPE_CHECKING:
    import torch

    from crlc.data.dataset import ImageDataset
    from crlc.workspace.exploration import ExplorationSettings


def explore_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `explore`."""
    parser.add_argument("dataset", metavar="DATASET")
    parser.add_argument(
        "--clusters", type=int, metavar="C", help="provisional clusters; by default as many as known classes, or 10"
    )
    parser.add_argument("--method", default="umap", choices=("umap", "tsne", "pca"), help="of the map; by default umap")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    parser.add_argument("--dry-run", action="store_true", help="say how long it would take, from a few timed images")


def run_explore(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Pretrained features, their map, and provisional k-means clusters."""
    import time

    import numpy as np

    from crlc.analysis.agreement import agreement
    from crlc.analysis.map_settings import MapSettings
    from crlc.cli.image_words import printable_paths, rounded
    from crlc.training.device import choose_device
    from crlc.workspace.exploration import ExplorationSettings, explore

    settings = ExplorationSettings(options.clusters, MapSettings(options.method, options.seed), options.seed)
    started = time.monotonic()
    dataset = workspace.dataset(options.dataset)
    device = choose_device(options.device)
    if options.dry_run:
        return _say_how_long(dataset, settings, device, output)
    found = explore(workspace, dataset, settings, device=device, report=TerminalProgress())
    seconds = time.monotonic() - started
    facts = dataset.facts(found.ids)
    against = None if facts.class_numbers is None else agreement(found.clusters, facts.class_numbers)
    order = np.lexsort((found.distance, found.clusters))
    numbers, first, sizes = np.unique(found.clusters[order], return_index=True, return_counts=True)
    typical = found.ids[order[first]].tolist()
    paths = printable_paths(dataset, typical)
    clusters = [
        {"cluster": number, "images": size, "typical": {"id": image, "path": paths[image]}}
        for number, size, image in zip(numbers.tolist(), sizes.tolist(), typical, strict=True)
    ]
    content = {
        "dataset": dataset.name,
        "provisional": True,
        "clusters": clusters,
        "classes": None if against is None else {name: rounded(value) for name, value in against._asdict().items()},
        "images": [
            {"id": number, "cluster": cluster, "x": rounded(x), "y": rounded(y)}
            for number, cluster, (x, y) in zip(
                found.ids.tolist(), found.clusters.tolist(), found.places.tolist(), strict=True
            )
        ],
    }
    rows = [[str(one["cluster"]), f"{one['images']:,}", one["typical"]["path"]] for one in clusters]
    lines = [
        f"{dataset.name}: {len(found.ids):,} images looked at in {duration(seconds)}, without training.",
        *table(("cluster", "images", "most typical"), rows),
        f"These clusters are provisional (k-means on pretrained features); better ones with: crlc train {dataset.name}",
    ]
    if against is not None:
        lines.append(f"Against the classes: ACC {against.acc:.1%}, NMI {against.nmi:.3f}, ARI {against.ari:.3f}.")
    output.result(content, lines)
    return 0


def _say_how_long(dataset: ImageDataset, settings: ExplorationSettings, device: torch.device, output: Output) -> int:
    from crlc.workspace.exploration_time import exploration_time

    time = exploration_time(dataset, settings, device)
    parts = [f"{name} {duration(seconds)}" for name, seconds in asdict(time).items() if seconds]
    lines = [
        f"{dataset.name} would be looked at in about {duration(time.seconds)}: {', '.join(parts)}."
        if parts
        else f"{dataset.name} has been looked at already."
    ]
    output.result({"dataset": dataset.name, "seconds": time.seconds, **asdict(time)}, lines)
    return 0
