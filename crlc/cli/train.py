"""Commands that train: train, resume."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crlc.cli.output import Output, TerminalProgress
from crlc.cli.processes import run_in_processes
from crlc.cli.train_semi import run_semi, wants_semi
from crlc.cli.training_process import announced, dry_run, evaluated_images, store_pixels, train_run, whole_number
from crlc.data.dataset import ImageDataset
from crlc.data.sources.builtin import BUILTIN_SETS
from crlc.errors import UsageError
from crlc.progress import no_progress
from crlc.training.settings import AUGMENTATIONS, CRITIC_NAMES, IMPLEMENTATIONS, SCRATCH_NAMES, TrainSettings
from crlc.workspace import Workspace

if TYPE_CHECKING:
    import torch

    from crlc.training.distributed import Compute, World
    from crlc.training.images import TrainingImages
    from crlc.training.planning import TrainRequest

_FEW_LINES_SECONDS = 5.0
_CLEAR = 0.75


def train_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `train`."""
    parser.add_argument("dataset", metavar="DATASET", help="a data set, or a source that is imported on the fly")
    parser.add_argument(
        "--clusters",
        metavar="C",
        help="number of clusters, auto, or auto:MOST to have one suggested; by default that of known classes, or 10",
    )
    parser.add_argument(
        "--preset", default="quick", metavar="P", help="quick, balanced, best, or paper-...; by default quick"
    )
    parser.add_argument("--method", default="auto", choices=("auto", "end-to-end", "two-stage", "semi"))
    parser.add_argument("--parent", metavar="RUN", help="for semi: the run to go on from")
    parser.add_argument(
        "--labels",
        metavar="FROM",
        help="for semi: a CSV file with path (or id) and label, workspace, workspace+moved, or classes:N to compare",
    )
    training = parser.add_mutually_exclusive_group()
    training.add_argument("--frozen", action="store_true", default=None, help="leave a pretrained backbone as it is")
    training.add_argument("--finetune", dest="frozen", action="store_false", help="train it too")
    parser.add_argument("--implementation", choices=IMPLEMENTATIONS)
    parser.add_argument("--critic", choices=CRITIC_NAMES)
    parser.add_argument(
        "--backbone",
        metavar="B",
        help="small, resnet18, resnet34, resnet50; pretrained: default, torchvision/NAME, timm/NAME",
    )
    parser.add_argument("--weights", metavar="FILE", default="", help="weights for a ResNet: torchvision, timm or MoCo")
    parser.add_argument("--neighbours", type=int, metavar="K", help="nearest images that count as alike in two-stage")
    parser.add_argument("--augment", choices=AUGMENTATIONS)
    parser.add_argument("--epochs", type=int, metavar="N")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--split", metavar="NAMES", help="train on these splits only, joined by +")
    parser.add_argument("--evaluate-split", metavar="NAMES", help="measure against the classes of these splits")
    device_arguments(parser)
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="train with that many processes or GPUs")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting; may be repeated"
    )
    parser.add_argument("--dry-run", action="store_true", help="say how long it would take, from a few timed steps")
    # For whoever started this process: written with the run's id as soon as there is one.
    parser.add_argument("--announce", type=Path, help=argparse.SUPPRESS)


def device_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to compute."""
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))


def run_train(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Train a new run."""
    from crlc.training.device import choose_device
    from crlc.training.distributed import joined_world

    if options.devices != 1:
        return _launch_processes(options.devices)
    device = choose_device(options.device)
    with joined_world(device.type) as world:
        return _train_here(options, workspace, output, device, world)


def _train_here(
    options: argparse.Namespace, workspace: Workspace, output: Output, device: torch.device, world: World
) -> int:
    from crlc.model import make_backbone
    from crlc.training.distributed import Compute
    from crlc.training.images import images_of, require_enough, without
    from crlc.training.planning import plan_run
    from crlc.training.trainer import Extras
    from crlc.workspace.annotations import excluded_images
    from crlc.workspace.runs import Runs

    dataset = workspace.dataset(world.told_by_first(lambda: _dataset(options.dataset, workspace).name))
    if wants_semi(options):
        return run_semi(options, workspace, output, dataset, Compute(device, world))
    excluded = excluded_images(dataset)
    images = without(images_of(dataset, dataset.usual_size(), split=options.split), excluded)
    count = _counted(options, dataset, images, workspace, Compute(device, world))
    clusters = _clusters(options, dataset) if count is None else count["suggestion"]
    plan = plan_run(_request(options, clusters), images, has_gpu=device.type != "cpu")
    settings = plan.settings
    world.told_by_first(lambda: store_pixels(dataset, settings.image_size, workspace))
    images = images_of(dataset, settings.image_size, split=options.split, cluster_unlabelled=False)
    images = without(images, excluded)
    evaluated = evaluated_images(dataset, settings, options.evaluate_split)
    if options.dry_run:
        return dry_run(images, settings, device, plan.reason, output)
    require_enough(images, settings.clusters)
    if settings.backbone not in SCRATCH_NAMES or settings.weights:
        make_backbone(settings.backbone, settings.image_size, settings.weights)  # what cannot be had is said now
    if world.is_writer:
        print(f"Method: {settings.method}: {plan.reason}.", file=sys.stderr)
    extra: dict[str, Any] = {"evaluate_split": options.evaluate_split, "method_reason": plan.reason}
    if count is not None:
        extra["cluster_count"] = count
    runs = Runs(workspace)

    def create() -> str:
        run = runs.create(dataset, images.ids, settings, options.preset, device.type, **extra)
        return announced(run, options.announce)

    run = runs.open(world.told_by_first(create))
    return train_run(run, images, settings, output, Compute(device, world), Extras(evaluated=evaluated))


def resume_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `resume`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")
    device_arguments(parser)
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="train with that many processes or GPUs")


def run_resume(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Go on with a run that was stopped or interrupted."""
    from crlc.training.device import choose_device
    from crlc.training.distributed import Compute, joined_world
    from crlc.training.images import images_of, only
    from crlc.workspace.runs import Runs
    from crlc.workspace.semi_runs import kept_beginning

    if options.devices != 1:
        return _launch_processes(options.devices)
    runs = Runs(workspace)
    run = runs.open(options.run)
    state = run.status()["state"]
    if state in ("running", "stopping"):
        raise UsageError(f"{run.id} is {state} already.")
    if state == "finished":
        raise UsageError(f"{run.id} is finished; there is nothing to resume.")
    description = run.description()
    settings = TrainSettings.from_json(description["settings"])
    dataset = runs.dataset_of(description)
    device = choose_device(options.device)
    with joined_world(device.type) as world:
        world.told_by_first(lambda: store_pixels(dataset, settings.image_size, workspace))
        images = only(images_of(dataset, settings.image_size, cluster_unlabelled=False), run.ids())
        evaluated = evaluated_images(dataset, settings, description.get("evaluate_split"))
        extras = replace(kept_beginning(run), evaluated=evaluated)
        return train_run(run, images, settings, output, Compute(device, world), extras)


# ---- inside


def _dataset(given: str, workspace: Workspace) -> ImageDataset:
    """A data set by its name, or made from a source now."""
    if given in workspace.dataset_names():
        return workspace.dataset(given)
    if given in BUILTIN_SETS or any(mark in given for mark in "/\\.~"):
        return workspace.import_dataset(given, report=TerminalProgress())[0]
    return workspace.dataset(given)  # says that there is none, and which is near


def _counted(
    options: argparse.Namespace, dataset: ImageDataset, images: TrainingImages, workspace: Workspace, compute: Compute
) -> dict[str, Any] | None:
    """The suggested number of clusters with its curve, where it was asked for."""
    from crlc.analysis.cluster_count import MOST_CLUSTERS
    from crlc.training.counting import suggested_count, wants_pixels
    from crlc.training.images import images_of, only
    from crlc.training.presets import FROZEN_HEADS

    word, _, most = (options.clusters or "").partition(":")
    if word != "auto":
        return None
    if not wants_pixels(images):
        size = FROZEN_HEADS.image_size
        compute.world.told_by_first(lambda: store_pixels(dataset, size, workspace))
        images = only(images_of(dataset, size, split=options.split), images.ids)
    highest = whole_number("clusters", most) if most else None
    report = TerminalProgress() if compute.world.is_writer else no_progress

    def count() -> str:
        found = suggested_count(images, compute.device, most=highest or MOST_CLUSTERS, report=report)
        doubt = "" if found.count.clearness > _CLEAR else " There is no clear step in the curve: look at others too."
        print(f"Clusters: {found.count.suggestion} suggested, read from {found.read_from}.{doubt}", file=sys.stderr)
        return json.dumps(found.to_json())

    counted: dict[str, Any] = json.loads(compute.world.told_by_first(count))
    return counted


def _clusters(options: argparse.Namespace, dataset: ImageDataset) -> int | None:
    """The number asked for; else that of the classes; none for a preset that has its own."""
    from crlc.training.presets import DEFAULT_CLUSTERS

    if options.clusters is not None:
        return whole_number("clusters", options.clusters)
    if options.preset.startswith("paper-"):
        return None
    classes = len(dataset.summary().classes)
    return classes if classes > 1 else DEFAULT_CLUSTERS


def _request(options: argparse.Namespace, clusters: int | None) -> TrainRequest:
    from crlc.training.planning import TrainRequest

    names = ("implementation", "critic", "augment", "epochs", "seed", "neighbours")
    named = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if clusters is not None:
        named["clusters"] = clusters
    return TrainRequest(
        options.preset,
        options.method,
        options.frozen,
        options.backbone,
        options.weights,
        named,
        tuple(options.set),
    )


def _launch_processes(count: int) -> int:
    """The same command in several processes."""
    if count < 1:
        raise UsageError(f"devices={count} is not allowed: it must be at least 1.")
    arguments = list(sys.argv[1:])
    place = next(i for i, word in enumerate(arguments) if word.split("=")[0] == "--devices")
    del arguments[place : place + (1 if "=" in arguments[place] else 2)]
    return run_in_processes(count, arguments)
