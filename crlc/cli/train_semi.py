"""`crlc train --method semi`: from a parent run, with labels; or the paper's own set-up, from scratch."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from crlc.cli.output import Output
from crlc.cli.training_process import announced, dry_run, evaluated_images, store_pixels, train_run, whole_number
from crlc.data.dataset import ImageDataset
from crlc.errors import UsageError
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.training.distributed import Compute
    from crlc.training.run_folder import RunFolder
    from crlc.training.settings import TrainSettings
    from crlc.workspace.runs import Runs
    from crlc.workspace.semi_runs import SemiPlan

PAPER_PRESETS = "paper-semi"
_CHANGEABLE = ("epochs", "augment", "critic")
_OF_THE_PARENT = ("clusters", "split", "backbone", "weights", "neighbours", "frozen", "implementation")
"""Options that a child has from its parent, whatever is asked for."""

_SHAPE = (
    "clusters",
    "subheads",
    "backbone",
    "weights",
    "image_size",
    "components",
    "hidden",
    "frozen",
    "pairs",
    "method",
)
"""Settings that decide which weights fit."""


def wants_semi(options: argparse.Namespace) -> bool:
    """Whether a call of `train` is about labels."""
    semi = options.method == "semi" or options.preset.startswith(PAPER_PRESETS)
    return bool(semi or options.parent or options.labels)


def run_semi(
    options: argparse.Namespace, workspace: Workspace, output: Output, dataset: ImageDataset, compute: Compute
) -> int:
    """Train a CRLC-semi run."""
    from crlc.training.images import images_of, only, require_enough
    from crlc.workspace.runs import Runs
    from crlc.workspace.semi_runs import keep_beginning

    if not options.labels or options.method not in ("auto", "semi"):
        raise UsageError("CRLC-semi needs --method semi, --parent RUN and --labels FILE|workspace|classes:N.")
    runs = Runs(workspace)
    parent = _parent(options, runs, dataset)
    plan = _plan(options, workspace, dataset, parent, compute)
    changed = {name: getattr(options, name) for name in _CHANGEABLE if getattr(options, name) is not None}
    settings = replace(plan.settings, **changed).with_overrides(options.set)
    if parent is not None:
        _require_same_shape(settings, plan.settings)
    compute.world.told_by_first(lambda: store_pixels(dataset, settings.image_size, workspace))
    images = only(images_of(dataset, settings.image_size, cluster_unlabelled=False), plan.ids)
    evaluated = evaluated_images(dataset, settings, options.evaluate_split)
    reason = "with labels, from scratch" if parent is None else "with labels, from a parent run"
    if options.dry_run:
        return dry_run(images, settings, compute.device, reason, output)
    require_enough(images, settings.clusters, compute.world.size)
    names = {str(number): name for number, name in plan.named.by_output().items()}
    more: dict[str, Any] = {"labels": options.labels, "names": names, "evaluate_split": options.evaluate_split}
    if parent is not None:
        more["parent"] = parent.id

    def create() -> str:
        for note in plan.notes:
            print(f"Note: {note}", file=sys.stderr)
        preset = options.preset if parent is None else "semi"
        prepare = partial(keep_beginning, plan=plan)
        run = runs.create(dataset, images.ids, settings, preset, compute.device.type, prepare=prepare, **more)
        return announced(run, options.announce)

    run = runs.open(compute.world.told_by_first(create))
    return train_run(run, images, settings, output, compute, replace(plan.extras, evaluated=evaluated))


def _parent(options: argparse.Namespace, runs: Runs, dataset: ImageDataset) -> RunFolder | None:
    if not options.parent:
        if options.preset.startswith(PAPER_PRESETS):
            return None
        raise UsageError("CRLC-semi needs --parent RUN, the run to go on from (or a preset paper-semi-...).")
    given = [name for name in _OF_THE_PARENT if getattr(options, name) not in (None, "")]
    if given or options.preset != "quick":
        what = ", ".join(f"--{name}" for name in given) or "--preset"
        raise UsageError(f"{what} cannot be used with --parent: a child has what its parent has.")
    parent = runs.open(options.parent)
    description = parent.description()
    if runs.dataset_of(description) != dataset:
        raise UsageError(f"parent={parent.id!r} is a run of {description['dataset']!r}, not of {dataset.name!r}.")
    return parent


def _require_same_shape(settings: TrainSettings, own: TrainSettings) -> None:
    changed = [name for name in _SHAPE if getattr(settings, name) != getattr(own, name)]
    if changed:
        name = changed[0]
        raise UsageError(f"{name}={getattr(settings, name)!r} is not allowed: the parent has {getattr(own, name)!r}.")


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
    changed = {name: getattr(options, name) for name in (*_CHANGEABLE, "backbone", "implementation")}
    changed = {**changed, "seed": options.seed, "clusters": whole_number("clusters", options.clusters)}
    settings = replace(PAPER[options.preset], **{name: value for name, value in changed.items() if value is not None})
    settings = settings.with_overrides(options.set)
    size = settings.image_size
    compute.world.told_by_first(lambda: store_pixels(dataset, size, workspace))
    images = without(images_of(dataset, size, split=options.split), excluded)
    return plan_semi_from_scratch(settings, dataset, images.ids, options.labels)
