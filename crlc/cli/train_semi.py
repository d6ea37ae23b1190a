"""`crlc train --method semi`: from a parent run, with labels; or the paper's own set-up, from scratch."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crlc.cli.output import Output
from crlc.cli.training_process import announced, dry_run, evaluated_images, store_pixels, train_run
from crlc.data.dataset import ImageDataset
from crlc.errors import UsageError
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.training.distributed import Compute
    from crlc.training.run_folder import RunFolder
    from crlc.workspace.runs import Runs
    from crlc.workspace.semi_runs import SemiPlan

PAPER_PRESETS = "paper-semi"
_CHANGEABLE = ("epochs", "augment", "implementation", "critic", "backbone")


def wants_semi(options: argparse.Namespace) -> bool:
    """Whether a call of `train` is about labels."""
    semi = options.method == "semi" or options.preset.startswith(PAPER_PRESETS)
    return bool(semi or options.parent or options.labels)


def run_semi(
    options: argparse.Namespace, workspace: Workspace, output: Output, dataset: ImageDataset, compute: Compute
) -> int:
    """Train a CRLC-semi run."""
    from crlc.training.images import images_of, only
    from crlc.workspace.runs import Runs
    from crlc.workspace.semi_runs import keep_labels

    if not options.labels or options.method not in ("auto", "semi"):
        raise UsageError("CRLC-semi needs --method semi, --parent RUN and --labels FILE|workspace|classes:N.")
    runs = Runs(workspace)
    parent = _parent(options, runs, dataset)
    plan = _plan(options, workspace, dataset, parent, compute)
    changed = {name: getattr(options, name) for name in _CHANGEABLE if getattr(options, name) is not None}
    settings = replace(plan.settings, **changed).with_overrides(options.set)
    images = only(images_of(dataset, settings.image_size, cluster_unlabelled=False), plan.ids)
    evaluated = evaluated_images(dataset, settings, options.evaluate_split)
    reason = "with labels, from scratch" if parent is None else "with labels, from a parent run"
    if options.dry_run:
        return dry_run(images, settings, compute.device, reason, output)
    names = {str(number): name for number, name in plan.named.by_output().items()}
    more: dict[str, Any] = {"labels": options.labels, "names": names, "evaluate_split": options.evaluate_split}
    if parent is not None:
        more["parent"] = parent.id

    def create() -> str:
        for note in plan.notes:
            print(f"Note: {note}", file=sys.stderr)
        preset = options.preset if parent is None else "semi"
        run = runs.create(dataset, images.ids, settings, preset, compute.device.type, **more)
        keep_labels(run, plan.labels)
        return announced(run, options.announce)

    run = runs.open(compute.world.told_by_first(create))
    return train_run(run, images, settings, output, compute, replace(plan.extras, evaluated=evaluated))


def _parent(options: argparse.Namespace, runs: Runs, dataset: ImageDataset) -> RunFolder | None:
    if not options.parent:
        if options.preset.startswith(PAPER_PRESETS):
            return None
        raise UsageError("CRLC-semi needs --parent RUN, the run to go on from (or a preset paper-semi-...).")
    parent = runs.open(options.parent)
    description = parent.description()
    if runs.dataset_of(description) != dataset:
        raise UsageError(f"parent={parent.id!r} is a run of {description['dataset']!r}, not of {dataset.name!r}.")
    return parent


def _plan(
    options: argparse.Namespace,
    workspace: Workspace,
    dataset: ImageDataset,
    parent: RunFolder | None,
    compute: Compute,
) -> SemiPlan:
    from crlc.training.images import images_of, without
    from crlc.training.presets import PAPER
    from crlc.workspace.annotations import excluded_images
    from crlc.workspace.semi_runs import plan_semi, plan_semi_from_scratch

    excluded = excluded_images(dataset)
    if parent is not None:
        return plan_semi(parent, dataset, options.labels, options.seed, excluded)
    if options.preset not in PAPER:
        raise UsageError(f"preset={options.preset!r} is not known. There are: paper-semi-cifar10, paper-semi-cifar100.")
    settings = PAPER[options.preset]
    clusters = settings.clusters if options.clusters is None else int(options.clusters)
    settings = replace(settings, clusters=clusters, seed=options.seed or 0)
    size = settings.image_size
    compute.world.told_by_first(lambda: store_pixels(dataset, size, workspace))
    images = without(images_of(dataset, size, split=options.split), excluded)
    return plan_semi_from_scratch(settings, dataset, images.ids, options.labels)
