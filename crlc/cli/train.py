"""Commands that train: train and resume."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from crlc.cli.launcher import launch_processes
from crlc.cli.options import add_device_argument, add_devices_argument, add_engine_argument, add_run_argument
from crlc.cli.output import Output
from crlc.cli.runs import format_metrics
from crlc.errors import UsageError
from crlc.files import write_json
from crlc.formatting import format_count, format_duration, format_duration_range
from crlc.training.settings import AUGMENTATIONS, CRITIC_NAMES, IMPLEMENTATIONS
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.runs.folder import RunFolder
    from crlc.services.run_preparation import RunRequest, SuggestClusters, TrainingEvents
    from crlc.services.train import RunEstimate, TrainingResult
    from crlc.training.run_logger import TrainProgress

_LOG_LINE_SECONDS = 5.0
_TERMINAL_LINE_CHARACTERS = 110
SETTINGS_WITH_OPTION = ("backbone", "implementation", "critic", "augment", "epochs", "seed", "neighbours", "engine")
"""Settings that have an option of the same name, which takes a value; --set changes all others."""


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `train`."""
    parser.add_argument(
        "dataset", metavar="DATASET", help="name of a dataset, or a source to import first (as for `crlc import`)"
    )
    parser.add_argument(
        "--clusters",
        metavar="C",
        help="number of clusters; 'auto' or 'auto:MAX' to choose it from the images "
        "(default: the number of ground-truth classes, else 10)",
    )
    parser.add_argument(
        "--preset",
        default="quick",
        metavar="NAME",
        help="quick, balanced, best, or a preset of the paper such as paper-cifar10 (default: quick)",
    )
    parser.add_argument(
        "--variant",
        default="",
        metavar="NAME",
        help="variant of a preset of the paper: c-head-only (without the feature loss), memory-bank (negatives from "
        "a bank), or stored-features (ImageNet50 and larger: faster, without augmentation)",
    )
    parser.add_argument(
        "--method",
        default="auto",
        choices=("auto", "end-to-end", "two-stage", "semi"),
        help="training method; auto chooses end-to-end or two-stage by the images and the device (default: auto)",
    )
    parser.add_argument("--parent", metavar="RUN", help="semi: run to start from (run id, unique prefix, or 'last')")
    parser.add_argument(
        "--labels",
        metavar="SOURCE",
        help="semi: a CSV file with the columns path (or id) and label; 'workspace' for the labels stored with the "
        "dataset; 'workspace+moved' to add images moved into named clusters; or 'classes:N' for N random images of "
        "each ground-truth class",
    )
    backbone = parser.add_mutually_exclusive_group()
    backbone.add_argument("--frozen", action="store_true", default=None, help="keep the pretrained backbone fixed")
    backbone.add_argument("--finetune", dest="frozen", action="store_false", help="train the pretrained backbone too")
    parser.add_argument(
        "--implementation",
        choices=IMPLEMENTATIONS,
        help="source of the negatives in both contrastive losses: simclr takes the other images of the batch, "
        "memory-bank a bank of earlier outputs",
    )
    parser.add_argument(
        "--critic", choices=CRITIC_NAMES, help="critic of the probability loss (default: log-dot, as in the paper)"
    )
    parser.add_argument(
        "--backbone",
        metavar="NAME",
        help="from scratch: small, resnet18, resnet34 or resnet50; pretrained: default, torchvision/NAME or timm/NAME",
    )
    parser.add_argument(
        "--weights", metavar="FILE", default="", help="pretrained weights of a ResNet from torchvision, timm or MoCo"
    )
    parser.add_argument(
        "--neighbours",
        type=int,
        metavar="K",
        help="two-stage: number of nearest neighbours from which the other image of a positive pair is drawn",
    )
    parser.add_argument("--augment", choices=AUGMENTATIONS, help="augmentation recipe")
    parser.add_argument("--epochs", type=int, metavar="N", help="number of passes over the images")
    parser.add_argument("--seed", type=int, metavar="S", help="seed of all random draws")
    parser.add_argument("--split", metavar="NAMES", help="train on these splits only, joined by +")
    parser.add_argument(
        "--evaluate-split",
        metavar="NAMES",
        help="compute ACC, NMI and ARI on these splits (default: the images trained on)",
    )
    add_device_argument(parser)
    add_engine_argument(parser)
    add_devices_argument(parser)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="change any other setting; can be repeated"
    )
    parser.add_argument(
        "--group", metavar="NAME", help="name of a group of runs to compare, such as a sweep; see `crlc runs --group`"
    )
    parser.add_argument(
        "--title", metavar="TEXT", help="title of the run (default: start time, preset and number of clusters)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="time a few steps and print the expected duration, without training"
    )
    # For the process that started this one: the file receives the run id as soon as the run exists.
    parser.add_argument("--announce", type=Path, help=argparse.SUPPRESS)


def run_train(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Train a new run, or estimate its duration."""
    from crlc.services.train import STOP_SIGNALS, estimate_runs, prepare_run, start_run
    from crlc.training.device import choose_device
    from crlc.training.distributed import ComputeContext, join_processes

    request = _build_request(options)
    if options.devices != 1:
        return launch_processes(options.devices)
    device = choose_device(options.device)
    events = _build_events(output, options.announce)
    with join_processes(device.type) as world:
        compute = ComputeContext(device, world)
        if options.dry_run:
            _print_estimates(estimate_runs(workspace, request, compute, events), device.type, output)
            return 0
        prepared = prepare_run(workspace, request, compute, events)
        result = start_run(workspace, prepared, compute, events, stop_signals=STOP_SIGNALS)
        if world.is_rank_zero:
            _print_result(result, output)
    return 0


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `resume`."""
    add_run_argument(parser)
    add_device_argument(parser)
    add_devices_argument(parser)


def run_resume(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Continue a stopped, failed or interrupted run."""
    from crlc.services.train import STOP_SIGNALS, open_resumable_run, resume_run
    from crlc.training.device import choose_device
    from crlc.training.distributed import ComputeContext, join_processes

    if _print_finished_run(options.run, workspace, output):
        return 0
    if options.devices != 1:
        return launch_processes(options.devices)
    open_resumable_run(workspace, options.run)  # raises errors before the processes connect
    device = choose_device(options.device)
    with join_processes(device.type) as world:
        compute = ComputeContext(device, world)
        result = resume_run(workspace, options.run, compute, _build_events(output), stop_signals=STOP_SIGNALS)
        if world.is_rank_zero:
            _print_result(result, output)
    return 0


def _print_finished_run(run_id: str, workspace: Workspace, output: Output) -> bool:
    """Print a finished run and return True: a run that was killed at its very end may be finished already."""
    from crlc.runs.state import RunState
    from crlc.services.run_summary import summarize_run
    from crlc.workspace.runs import RunStore

    run = RunStore(workspace).open(run_id)
    if run.read_status().state is not RunState.FINISHED:
        return False
    summary = summarize_run(run)
    output.print_result(
        summary.to_json(), [f"{run.id} is finished; there is nothing to resume.", *format_metrics(summary)]
    )
    return True


# ---- arguments


def _build_request(options: argparse.Namespace) -> RunRequest:
    from crlc.services.run_preparation import RunRequest
    from crlc.training.request import TrainRequest

    # The backbone also determines the method: it is not only a value.
    names = [name for name in SETTINGS_WITH_OPTION if name != "backbone"]
    named = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    training = TrainRequest(
        options.preset,
        options.method,
        options.frozen,
        options.backbone,
        options.weights,
        named,
        tuple(options.set),
        options.variant,
    )
    return RunRequest(
        options.dataset,
        training,
        _parse_clusters(options.clusters),
        options.split,
        options.evaluate_split,
        options.parent,
        options.labels,
        options.group,
        options.title,
    )


def _parse_clusters(text: str | None) -> int | SuggestClusters | None:
    """Parse a number, `auto` or `auto:MAX`."""
    from crlc.services.run_preparation import SuggestClusters

    if text is None:
        return None
    word, _, number = text.partition(":")
    try:
        if word != "auto":
            return int(text)
        return SuggestClusters(int(number)) if number else SuggestClusters()
    except ValueError:
        raise UsageError(
            f"clusters={text!r} is not allowed: it must be a whole number, 'auto' or 'auto:MAX'."
        ) from None


# ---- output


def _build_events(output: Output, announcement: Path | None = None) -> TrainingEvents:
    """Return callbacks that print to stderr and write the run id to the announcement file."""
    from crlc.services.run_preparation import TrainingEvents

    def announce(run: RunFolder) -> None:
        if announcement is not None:
            write_json(announcement, {"kind": "announcement", "version": 1, "run": run.id})

    return TrainingEvents(output.progress, _StepPrinter(), _print_note, announce)


def _print_note(text: str) -> None:
    print(text, file=sys.stderr)


def _print_estimates(estimates: dict[str, RunEstimate], device: str, output: Output) -> None:
    """Print the estimate of the requested preset, which is the first, and the times of the others."""
    content = {
        preset: {
            "seconds": round(estimate.time.expected, 1),
            "low": round(estimate.time.low, 1),
            "high": round(estimate.time.high, 1),
            "method_reason": estimate.reason,
            "settings": estimate.settings.to_json(),
        }
        for preset, estimate in estimates.items()
    }
    (chosen, estimate), *others = estimates.items()
    stages, time_range = estimate.settings.stages, estimate.time
    lines = [
        f"Method: {stages.method}: {estimate.reason}.",
        f"{format_count(stages.total_epochs, 'epoch')} of {format_count(estimate.images, 'image')} on {device}: "
        f"about {format_duration_range(time_range.low, time_range.high)}.",
    ]
    lines += [f"{name}: about {format_duration_range(one.time.low, one.time.high)}." for name, one in others]
    output.print_result({**content[chosen], "presets": content}, lines)


def _print_result(result: TrainingResult, output: Output) -> None:
    from crlc.runs.state import RunState
    from crlc.services.run_summary import summarize_run

    sys.stderr.write("\n" if sys.stderr.isatty() else "")
    run, summary = result.run, summarize_run(result.run)
    lines = [f"{run.id}: {result.state} after {summary.epoch} epochs, {format_duration(summary.seconds)}."]
    lines += format_metrics(summary)
    if result.state is RunState.STOPPED:
        lines.append(f"To continue, run: crlc resume {run.id}")
    output.print_result(summary.to_json(), lines)


class _StepPrinter:
    """Progress of training on stderr: one updated line on a terminal, a line every few seconds in a log."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._last_line = time.monotonic()

    def __call__(self, progress: TrainProgress) -> None:
        information = progress.cluster_information
        metric = "" if information is None else f"  cluster information {information:.2f}"
        text = (
            f"{progress.stage.capitalize()}, epoch {progress.epoch}/{progress.epochs}  loss {progress.loss:.3f}{metric}"
            f"  {progress.images_per_second:,.0f} images/s  {format_duration(progress.seconds_left)} left"
        )
        if self._is_terminal:
            sys.stderr.write(f"\r{text:<{_TERMINAL_LINE_CHARACTERS}}")
        elif time.monotonic() - self._last_line > _LOG_LINE_SECONDS:
            self._last_line = time.monotonic()
            sys.stderr.write(text + "\n")
        sys.stderr.flush()
