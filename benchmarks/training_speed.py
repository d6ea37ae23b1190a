"""Cost of a training step beyond the network itself: `python benchmarks/training_speed.py [step|lightly|bank]`.

step     our step (views, losses, optimizer) against the forward and backward pass of the same network on prepared
         views, alternately, 32 px, batch 256. Target: at most 1.15 times, for the small network and ResNet-18.
lightly  images/s against a SimCLR step of the package `lightly` with its own transforms and loader, with the same
         network, batch size and threads, small network. Target: at least 1.3 times. Needs: pip install lightly
bank     MemoryBank form against SimCLR form, batch 512, ResNet-18, in separate processes. Targets: at most 0.6 of the
         time, and 0.8 of the peak anonymous memory above the start of the first step.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, describe_machine, measure_seconds, read_anonymous_bytes, record_peak
from crlc.data.augmentation import PHOTO, make_view
from crlc.runs.folder import RunFolder
from crlc.training.distributed import ComputeContext
from crlc.training.images import TrainingImages
from crlc.training.paper_presets import PAPER_PRESETS
from crlc.training.trainer import Trainer

CPU = torch.device("cpu")
IMAGE_SIZE = 32
POLL_SECONDS = 0.01


def make_pixels(count: int) -> NDArray[np.uint8]:
    """Return images of noise: the content has no effect on the time."""
    return np.random.default_rng(0).integers(0, 256, (count, IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.uint8)


def make_trainer(run_folder: str, batch: int, **changes: object) -> Trainer:
    """Return a trainer that does not reach the end of an epoch."""
    settings = PAPER_PRESETS["paper-cifar10"].replace(batch_size=batch, log_steps=1_000_000, **changes)
    folder = RunFolder(Path(run_folder))
    return Trainer(TrainingImages.from_array(make_pixels(40 * batch)), settings, folder, ComputeContext(CPU))


def run_network(trainer: Trainer, views: torch.Tensor) -> None:
    """Run only the forward and backward pass of the network."""
    output = trainer.network(views)
    (output.z.sum() + output.logits.sum()).backward()
    trainer.network.zero_grad(set_to_none=True)


def compare_step(backbone: str, turns: int) -> None:
    """Print the ratio of our step to the network alone."""
    with tempfile.TemporaryDirectory() as temporary:
        trainer = make_trainer(temporary, 256, backbone=backbone)
        images = trainer.images.load_batch(np.arange(256), CPU)
        views = torch.cat([make_view(images, PHOTO, torch.Generator()) for _ in range(2)])
        run_network(trainer, views)
        trainer.train_step()
        pairs = [
            (measure_seconds(lambda: run_network(trainer, views)), measure_seconds(trainer.train_step))
            for _ in range(turns)
        ]
    ratio = statistics.median(ours / alone for alone, ours in pairs)
    alone, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"{backbone}: network alone {alone:.3f} s, our step {ours:.3f} s, "
        f"ratio {ratio:.3f} (target: 1.15; {turns} turns)",
        flush=True,
    )


def compare_lightly(turns: int) -> None:
    """Print images/s of ours and of lightly."""
    from lightly.loss import NTXentLoss
    from lightly.transforms import SimCLRTransform
    from PIL import Image

    class AugmentedImages(torch.utils.data.Dataset[list[torch.Tensor]]):
        def __init__(self) -> None:
            self.images = [Image.fromarray(pixels) for pixels in make_pixels(256 * (turns + 2))]
            self.transform = SimCLRTransform(input_size=IMAGE_SIZE, gaussian_blur=0.0)

        def __len__(self) -> int:
            return len(self.images)

        def __getitem__(self, index: int) -> list[torch.Tensor]:
            views: list[torch.Tensor] = self.transform(self.images[index])
            return views

    with tempfile.TemporaryDirectory() as temporary:
        trainer = make_trainer(temporary, 256, backbone="small")
        loss = NTXentLoss(0.1)
        optimizer = torch.optim.SGD(trainer.network.parameters(), 0.1, momentum=0.9)
        loader = torch.utils.data.DataLoader(
            AugmentedImages(), batch_size=256, num_workers=torch.get_num_threads(), drop_last=True
        )
        batches = iter(loader)

        def their_step() -> None:
            first, second = next(batches)
            z = trainer.network(torch.cat([first, second])).z
            value = loss(z[:256], z[256:])
            optimizer.zero_grad()
            value.backward()
            optimizer.step()

        their_step()
        trainer.train_step()
        ours = statistics.median(measure_seconds(trainer.train_step) for _ in range(turns))
        started = time.perf_counter()
        for _ in range(turns):
            their_step()
        theirs = (time.perf_counter() - started) / turns
    print(
        f"small: ours {256 / ours:,.0f} images/s, lightly {256 / theirs:,.0f}, ratio {theirs / ours:.2f} (target: 1.3)",
        flush=True,
    )


def measure_form(implementation: str, steps: int) -> None:
    """Print seconds per step and peak memory above the start; runs in a separate process."""
    with tempfile.TemporaryDirectory() as temporary:
        trainer = make_trainer(temporary, 512, backbone="resnet18", implementation=implementation)
        start = read_anonymous_bytes(os.getpid())
        with record_peak(lambda: read_anonymous_bytes(os.getpid()), POLL_SECONDS) as peak:
            trainer.train_step()
            times = [measure_seconds(trainer.train_step) for _ in range(steps)]
    print(f"{statistics.median(times):.3f} {(peak.value - start) / 2**20:.1f}")


def compare_bank(steps: int) -> None:
    """Print the ratios of the MemoryBank form to the SimCLR form."""
    figures = {}
    for form in ("simclr", "memory-bank"):
        command = [sys.executable, __file__, "one-form", "--form", form, "--turns", str(steps)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        figures[form] = [float(value) for value in out.split()]
    (simclr_time, simclr_memory), (bank_time, bank_memory) = figures["simclr"], figures["memory-bank"]
    print(f"SimCLR form {simclr_time:.2f} s, {simclr_memory:,.0f} MB")
    print(f"MemoryBank form {bank_time:.2f} s, {bank_memory:,.0f} MB")
    ratios = bank_time / simclr_time, bank_memory / simclr_memory
    print(f"  ratio of time {ratios[0]:.2f} (target: 0.6), of memory {ratios[1]:.2f} (target: 0.8)", flush=True)


def main() -> None:
    """Run the selected parts."""
    parser = create_parser(__doc__)
    parser.add_argument("parts", nargs="*", default=["step", "lightly", "bank"])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--form", default="simclr")
    options = parser.parse_args()
    if options.parts == ["one-form"]:
        measure_form(options.form, options.turns)
        return
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {describe_machine()}")
    if "step" in options.parts:
        compare_step("small", 7 * options.turns)
        compare_step("resnet18", options.turns)
    if "lightly" in options.parts:
        compare_lightly(7 * options.turns)
    if "bank" in options.parts:
        compare_bank(options.turns)


if __name__ == "__main__":
    main()
