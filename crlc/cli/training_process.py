"""What every command that trains shares: pixels of the right size, the estimate, the run itself, what is printed."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from crlc.cli.output import Output, TerminalProgress, duration
from crlc.cli.runs import metric_lines, summary
from crlc.config import ImportOptions
from crlc.data.dataset import ImageDataset
from crlc.data.pixels import stored_sizes
from crlc.errors import UsageError
from crlc.files import write_json, writer_lock
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace

if TYPE_CHECKING:
    import torch

    from crlc.training.distributed import Compute
    from crlc.training.images import TrainingImages
    from crlc.training.journal import TrainProgress
    from crlc.training.run_folder import RunFolder
    from crlc.training.trainer import Extras

_FEW_LINES_SECONDS = 5.0


def whole_number(name: str, text: str | None) -> int | None:
    """A number from the command line, where there is one.

    Raises:
        UsageError: it is not a number.
    """
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name}={text!r} is not allowed: it must be a whole number, auto or auto:MOST.") from None


def store_pixels(dataset: ImageDataset, size: int, workspace: Workspace) -> None:
    """Have the images at the size that the run wants, decoded now if they are not there yet."""
    if size not in stored_sizes(dataset.folder, complete=True):
        options = ImportOptions(size=size)
        workspace.import_dataset(dataset.info.location, name=dataset.name, options=options, report=TerminalProgress())


def evaluated_images(dataset: ImageDataset, settings: TrainSettings, split: str | None) -> TrainingImages | None:
    """The images of the splits to measure on; none to measure on those trained on."""
    from crlc.training.images import images_of, without
    from crlc.workspace.annotations import excluded_images

    if split is None:
        return None
    return without(images_of(dataset, settings.image_size, split=split), excluded_images(dataset))


def announced(run: RunFolder, file: Path | None) -> str:
    """The run's id, told to whoever wants to know it before the end."""
    if file is not None:
        write_json(file, {"kind": "announcement", "version": 1, "run": run.id})
    return run.id


def dry_run(images: TrainingImages, settings: TrainSettings, device: torch.device, reason: str, output: Output) -> int:
    """Say how long a run would take."""
    from crlc.training.estimate import estimated_seconds

    seconds = estimated_seconds(images, settings, device)
    text = f"{settings.epochs} epochs of {len(images):,} images on {device.type}: about {duration(seconds)}."
    content = {"seconds": round(seconds, 1), "method_reason": reason, "settings": settings.to_json()}
    output.result(content, [f"Method: {settings.method}: {reason}.", text])
    return 0


def train_run(
    run: RunFolder,
    images: TrainingImages,
    settings: TrainSettings,
    output: Output,
    compute: Compute,
    extras: Extras,
) -> int:
    """Train to the end, to a stop or to an error, and say what came out."""
    from crlc.training.journal import Listener
    from crlc.training.trainer import Trainer

    world = compute.world
    listener = Listener(_StepPrinter(), TerminalProgress()) if world.is_writer else Listener()
    alone = writer_lock(run.path / "lock", f"The run {run.id}") if world.is_writer else nullcontext()
    with alone:
        trainer = Trainer(images, settings, run, compute, listener, extras)
        before = {number: signal.signal(number, trainer.request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            state = trainer.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    if world.is_writer:
        _tell_outcome(run, state, output)
    return 0


def _tell_outcome(run: RunFolder, state: str, output: Output) -> None:
    sys.stderr.write("\n" if sys.stderr.isatty() else "")
    content = summary(run)
    lines = [f"{run.id}: {state} after {content['epoch']} epochs, {duration(content['seconds'])}."]
    lines += metric_lines(content)
    if state == "stopped":
        lines.append(f"Go on with: crlc resume {run.id}")
    output.result(content, lines)


class _StepPrinter:
    """Shows training on stderr: one moving line on a terminal, a line now and then in a log."""

    def __init__(self) -> None:
        self._moving = sys.stderr.isatty()
        self._last = time.monotonic()

    def __call__(self, progress: TrainProgress) -> None:
        information = progress.cluster_information
        meter = "" if information is None else f"  cluster information {information:.2f}"
        text = (
            f"{progress.stage.capitalize()}, epoch {progress.epoch}/{progress.epochs}  loss {progress.loss:.3f}{meter}"
            f"  {progress.images_per_second:,.0f} images/s  {duration(progress.seconds_left)} left"
        )
        if self._moving:
            sys.stderr.write(f"\r{text:<110}")
        elif time.monotonic() - self._last > _FEW_LINES_SECONDS:
            self._last = time.monotonic()
            sys.stderr.write(text + "\n")
        sys.stderr.flush()
