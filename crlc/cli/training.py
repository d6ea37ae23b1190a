"""Commands about runs: train, resume, stop, runs, show."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crlc.cli.output import Output, duration, table
from crlc.config import ImportOptions
from crlc.data.dataset import ImageDataset
from crlc.data.pixels import stored_sizes
from crlc.data.sources.builtin import BUILTIN_SETS
from crlc.errors import CrlcError, UsageError
from crlc.files import writer_lock
from crlc.training.settings import AUGMENTATIONS, BACKBONE_NAMES, CRITIC_NAMES, IMPLEMENTATIONS, TrainSettings
from crlc.workspace import Workspace

if TYPE_CHECKING:
    import torch

    from crlc.training.images import TrainingImages
    from crlc.training.run_folder import RunFolder
    from crlc.training.trainer import TrainProgress

_STOP_PATIENCE_SECONDS = 60
_CURVE = " ▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 60
_FEW_LINES_SECONDS = 5.0


def train_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `train`."""
    parser.add_argument("dataset", metavar="DATASET", help="a data set, or a source that is imported on the fly")
    parser.add_argument(
        "--clusters", type=int, metavar="C", help="number of clusters; by default that of known classes, or 10"
    )
    parser.add_argument(
        "--preset", default="quick", metavar="P", help="quick, balanced, best, or paper-...; by default quick"
    )
    parser.add_argument("--implementation", choices=IMPLEMENTATIONS)
    parser.add_argument("--critic", choices=CRITIC_NAMES)
    parser.add_argument("--backbone", choices=BACKBONE_NAMES)
    parser.add_argument("--augment", choices=AUGMENTATIONS)
    parser.add_argument("--epochs", type=int, metavar="N")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting; may be repeated"
    )
    parser.add_argument("--dry-run", action="store_true", help="say how long it would take, from a few timed steps")


def run_train(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Train a new run."""
    from crlc.training.device import choose_device
    from crlc.training.estimate import estimated_seconds
    from crlc.training.images import require_enough
    from crlc.workspace.runs import Runs

    device = choose_device(options.device)
    dataset = _dataset(options.dataset, workspace)
    settings = _settings(options, dataset, device)
    images = _images(dataset, settings, workspace)
    if options.dry_run:
        seconds = estimated_seconds(images, settings, device)
        text = f"{settings.epochs} epochs of {len(images):,} images on {device.type}: about {duration(seconds)}."
        output.result({"seconds": round(seconds, 1), "settings": settings.to_json()}, [text])
        return 0
    require_enough(images, settings.clusters)
    run = Runs(workspace).create(dataset, images.ids, settings, options.preset, device.type)
    return _train(run, images, settings, device, dataset, output)


def resume_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `resume`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))


def run_resume(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Go on with a run that was stopped or interrupted."""
    from crlc.training.device import choose_device
    from crlc.training.images import only
    from crlc.workspace.runs import Runs

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
    images = only(_images(dataset, settings, workspace), run.ids())
    return _train(run, images, settings, choose_device(options.device), dataset, output)


def run_argument(parser: argparse.ArgumentParser) -> None:
    """Options of `stop` and `show`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")


def run_stop(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Ask a run to stop, and wait until it has."""
    from crlc.workspace.runs import Runs

    run = Runs(workspace).open(options.run)
    if run.status()["state"] != "running":
        raise UsageError(f"{run.id} is not running: it is {run.status()['state']}.")
    run.ask_to_stop()
    deadline = time.monotonic() + _STOP_PATIENCE_SECONDS
    while (state := run.status()["state"]) == "running":
        if time.monotonic() > deadline:
            raise CrlcError(
                f"{run.id} has not stopped after {_STOP_PATIENCE_SECONDS} s; it will after its present step."
            )
        time.sleep(0.1)
    output.result({"run": run.id, "state": state}, [f"{run.id} is {state}. Go on with: crlc resume {run.id}"])
    return 0


def run_runs(_: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """List all runs."""
    from crlc.workspace.runs import Runs

    runs = Runs(workspace)
    content = [_summary(runs.open(run_id)) for run_id in runs.ids()]
    rows = [
        [
            c["run"],
            c["state"],
            f"{c['epoch']}/{c['epochs']}",
            _share(c["metrics"]["acc"]),
            _number(c["metrics"]["cluster_information"]),
        ]
        for c in content
    ]
    lines = (
        table(("run", "state", "epoch", "acc", "information"), rows)
        if rows
        else ["No runs yet. Begin with: crlc train digits"]
    )
    output.result({"runs": content}, lines)
    return 0


def run_show(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """One run: what it is, how far it got, and its curve."""
    from crlc.workspace.runs import Runs

    run = Runs(workspace).open(options.run)
    summary, description = _summary(run), run.description()
    epochs = [record for record in run.metrics() if record["kind"] == "epoch"]
    lines = [
        f"{run.id}: {summary['state']}, epoch {summary['epoch']} of {summary['epochs']}, "
        f"preset {description['preset']}",
        *([summary["message"]] if summary["message"] else []),
        *_metric_lines(summary["metrics"]),
        *([f"Cluster information  {curve([record['cluster_information'] for record in epochs])}"] if epochs else []),
    ]
    output.result({**summary, "settings": description["settings"]}, lines)
    return 0


# ---- inside


def _dataset(given: str, workspace: Workspace) -> ImageDataset:
    """A data set by its name, or made from a source now."""
    from crlc.cli.output import TerminalProgress

    if given in workspace.dataset_names():
        return workspace.dataset(given)
    if given in BUILTIN_SETS or any(mark in given for mark in "/\\.~"):
        return workspace.import_dataset(given, report=TerminalProgress())[0]
    return workspace.dataset(given)  # says that there is none, and which is near


def _settings(options: argparse.Namespace, dataset: ImageDataset, device: torch.device) -> TrainSettings:
    from crlc.data.augment import suitable_recipe
    from crlc.training.images import images_of
    from crlc.training.presets import DEFAULT_CLUSTERS, Circumstances, preset

    size = dataset.usual_size()
    sample = images_of(dataset, size)
    recipe = suitable_recipe(sample.sample(64))
    settings = preset(options.preset, Circumstances(len(sample), size, recipe == "glyph", device.type != "cpu"))
    chosen = {
        name: getattr(options, name) for name in ("implementation", "critic", "backbone", "augment", "epochs", "seed")
    }
    clusters = options.clusters
    if clusters is None and not options.preset.startswith("paper-"):
        clusters = len(dataset.summary().classes) or DEFAULT_CLUSTERS
    named = {**chosen, "clusters": clusters}
    return settings.with_overrides(
        [*(f"{name}={value}" for name, value in named.items() if value is not None), *options.set]
    )


def _images(dataset: ImageDataset, settings: TrainSettings, workspace: Workspace) -> TrainingImages:
    """The images at the size that the run wants, decoded now if they are not there yet."""
    from crlc.cli.output import TerminalProgress
    from crlc.training.images import images_of

    if settings.image_size not in stored_sizes(dataset.folder, complete=True):
        options = ImportOptions(size=settings.image_size)
        workspace.import_dataset(dataset.info.location, name=dataset.name, options=options, report=TerminalProgress())
    return images_of(dataset, settings.image_size, cluster_unlabelled=False)


def _train(
    run: RunFolder,
    images: TrainingImages,
    settings: TrainSettings,
    device: torch.device,
    dataset: ImageDataset,
    output: Output,
) -> int:
    from crlc.training.trainer import Trainer

    with writer_lock(run.path / "lock", f"The run {run.id}"):
        trainer = Trainer(images, settings, run, device, _progress_printer())
        before = {number: signal.signal(number, trainer.request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            state = trainer.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    sys.stderr.write("\n" if sys.stderr.isatty() else "")
    summary = _summary(run)
    content = {**summary, "dataset": dataset.name}
    lines = [f"{run.id}: {state} after {summary['epoch']} epochs, {duration(summary['seconds'])}."]
    lines += _metric_lines(summary["metrics"])
    if state == "stopped":
        lines.append(f"Go on with: crlc resume {run.id}")
    output.result(content, lines)
    return 0


def _summary(run: RunFolder) -> dict[str, Any]:
    """What `train --json` prints, for any run."""
    status = run.status()
    latest: dict[str, Any] = {}
    for record in run.metrics():
        if record["kind"] != "step":
            latest = {**latest, **record}
    timing = latest.get("timing", {})
    names = ("acc", "nmi", "ari", "cluster_information", "clusters_found", "largest_share")
    return {
        "run": run.id,
        "state": status["state"],
        "message": status.get("message"),
        "dataset": run.description()["dataset"],
        "metrics": {name: latest.get(name) for name in names},
        "epoch": status["epoch"],
        "epochs": status["epochs"],
        "seconds": timing.get("seconds", 0.0),
        "images_per_second": timing.get("images_per_second"),
        "peak_memory_mb": timing.get("memory_mb"),
    }


def _metric_lines(metrics: dict[str, Any]) -> list[str]:
    if metrics["cluster_information"] is None:
        return []
    lines = [
        f"Cluster information {metrics['cluster_information']:.3f}, clusters found {metrics['clusters_found']}, "
        f"the largest holds {metrics['largest_share']:.0%}."
    ]
    if metrics["acc"] is not None:
        lines.append(
            f"Against the classes: ACC {metrics['acc']:.1%}, NMI {metrics['nmi']:.3f}, ARI {metrics['ari']:.3f}."
        )
    return lines


def _progress_printer() -> Callable[[TrainProgress], None]:
    """Shows progress on stderr: one moving line on a terminal, a line now and then in a log."""
    moving = sys.stderr.isatty()
    last = [time.monotonic()]

    def show(progress: TrainProgress) -> None:
        information = progress.cluster_information
        meter = "" if information is None else f"  cluster information {information:.2f}"
        text = (
            f"Epoch {progress.epoch}/{progress.epochs}  loss {progress.loss:.3f}{meter}  "
            f"{progress.images_per_second:,.0f} images/s  {duration(progress.seconds_left)} left"
        )
        if moving:
            sys.stderr.write(f"\r{text:<100}")
        elif time.monotonic() - last[0] > _FEW_LINES_SECONDS:
            last[0] = time.monotonic()
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    return show


def curve(values: list[float]) -> str:
    """Numbers from 0 to 1 as a line of blocks, at most 60 of them."""
    step = max(1, -(-len(values) // _CURVE_WIDTH))
    return "".join(_CURVE[round(max(0.0, min(1.0, value)) * (len(_CURVE) - 1))] for value in values[step - 1 :: step])


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
