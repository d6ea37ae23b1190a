"""`crlc count`: how many clusters to ask for."""

from __future__ import annotations

import argparse

from crlc.cli.output import Output, TerminalProgress
from crlc.workspace import Workspace

_CLEAR = 0.75


def count_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `count`."""
    parser.add_argument("dataset", metavar="DATASET")
    parser.add_argument("--most", type=int, metavar="N", help="the highest number to try; by default 20")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))


def run_count(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Suggest a number of clusters, with the curve it was read from."""
    from crlc.analysis.cluster_count import MOST_CLUSTERS
    from crlc.config import ImportOptions
    from crlc.data.pixels import stored_sizes
    from crlc.training.counting import suggested_count, wants_pixels
    from crlc.training.device import choose_device
    from crlc.training.images import images_of, only, without
    from crlc.training.presets import FROZEN_HEADS
    from crlc.workspace.annotations import excluded_images

    report = TerminalProgress()
    dataset = workspace.dataset(options.dataset)
    images = without(images_of(dataset, dataset.usual_size()), excluded_images(dataset))
    size = FROZEN_HEADS.image_size
    if not wants_pixels(images):
        if size not in stored_sizes(dataset.folder, complete=True):
            place, larger = dataset.info.location, ImportOptions(size=size)
            dataset, _ = workspace.import_dataset(place, name=dataset.name, options=larger, report=report)
        images = only(images_of(dataset, size), images.ids)
    most = MOST_CLUSTERS if options.most is None else options.most
    found = suggested_count(images, choose_device(options.device), most=most, report=report)
    lines = [f"{dataset.name}: {found.count.suggestion} clusters suggested, read from {found.read_from}."]
    if found.count.clearness <= _CLEAR:
        lines.append("There is no clear step in the curve: look at other numbers, too.")
    output.result({"dataset": dataset.name, **found.to_json()}, lines)
    return 0
