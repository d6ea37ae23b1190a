"""How much a training step costs beyond the network itself: `python benchmarks/training_speed.py [step|lightly|bank]`.

step     our step (views + losses + optimiser) against the bare forward and backward of the same network on
         ready views, in turns, 32 px, batch 256. Bar: at most 1.15 times, for the small net and ResNet-18.
lightly  images/s against a SimCLR step of the package `lightly` with its own transforms and loader, same
         network, batch and threads, small net. Bar: at least 1.3 times. Needs: pip install lightly
bank     MemoryBank form against SimCLR form, batch 512, ResNet-18, a process each. Bars: at most 0.6 of the
         time, and 0.8 of the peak anonymous memory above the start of the first step.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.data.augment import PHOTO, make_view
from crlc.training.distributed import Compute
from crlc.training.images import images_from_array
from crlc.training.presets import PAPER
from crlc.training.run_folder import RunFolder
from crlc.training.trainer import Trainer

CPU = torch.device("cpu")
SIZE = 32


def random_pixels(count: int) -> np.ndarray:
    """Pictures of noise: for time, content does not matter."""
    return np.random.default_rng(0).integers(0, 256, (count, SIZE, SIZE, 3), dtype=np.uint8)


def make_trainer(place: str, batch: int, **changes: object) -> Trainer:
    """A trainer that never reaches the end of an epoch."""
    settings = replace(PAPER["paper-cifar10"], batch_size=batch, log_steps=1_000_000, **changes)  # type: ignore[arg-type]
    folder = RunFolder(Path(place))
    return Trainer(images_from_array(random_pixels(40 * batch)), settings, folder, Compute(CPU))


def seconds(action: Callable[[], object]) -> float:
    """How long one call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def bare_pass(trainer: Trainer, views: torch.Tensor) -> None:
    """Forward and backward of the network, and nothing else."""
    output = trainer.network(views)
    (output.z.sum() + output.logits.sum()).backward()
    trainer.network.zero_grad(set_to_none=True)


def compare_step(backbone: str, turns: int) -> None:
    """Print the ratio of our step to the bare pass."""
    with tempfile.TemporaryDirectory() as place:
        trainer = make_trainer(place, 256, backbone=backbone)
        images = trainer.images.batch(np.arange(256), CPU)
        views = torch.cat([make_view(images, PHOTO, torch.Generator()) for _ in range(2)])
        bare_pass(trainer, views), trainer.train_step()
        pairs = [(seconds(lambda: bare_pass(trainer, views)), seconds(trainer.train_step)) for _ in range(turns)]
    ratio = statistics.median(ours / bare for bare, ours in pairs)
    bare, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"{backbone}: bare {bare:.3f} s, our step {ours:.3f} s, ratio {ratio:.3f} (bar: 1.15; {turns} turns)",
        flush=True,
    )


def compare_lightly(turns: int) -> None:
    """Print images/s of both."""
    from lightly.loss import NTXentLoss
    from lightly.transforms import SimCLRTransform
    from PIL import Image

    class Pictures(torch.utils.data.Dataset[list[torch.Tensor]]):
        def __init__(self) -> None:
            self.pictures = [Image.fromarray(pixels) for pixels in random_pixels(256 * (turns + 2))]
            self.transform = SimCLRTransform(input_size=SIZE, gaussian_blur=0.0)

        def __len__(self) -> int:
            return len(self.pictures)

        def __getitem__(self, index: int) -> list[torch.Tensor]:
            return self.transform(self.pictures[index])

    with tempfile.TemporaryDirectory() as place:
        trainer = make_trainer(place, 256, backbone="small")
        loss = NTXentLoss(0.1)
        optimiser = torch.optim.SGD(trainer.network.parameters(), 0.1, momentum=0.9)
        loader = torch.utils.data.DataLoader(
            Pictures(), batch_size=256, num_workers=torch.get_num_threads(), drop_last=True
        )
        batches = iter(loader)

        def their_step() -> None:
            first, second = next(batches)
            z = trainer.network(torch.cat([first, second])).z
            value = loss(z[:256], z[256:])
            optimiser.zero_grad()
            value.backward()
            optimiser.step()

        their_step(), trainer.train_step()
        ours = statistics.median(seconds(trainer.train_step) for _ in range(turns))
        theirs = seconds(lambda: [their_step() for _ in range(turns)]) / turns
    print(
        f"small: ours {256 / ours:,.0f} images/s, lightly {256 / theirs:,.0f}, ratio {theirs / ours:.2f} (bar: 1.3)",
        flush=True,
    )


def anonymous_mb() -> float:
    """RssAnon of this process."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("RssAnon")).split()[1]) / 1024


def one_form(implementation: str, steps: int) -> None:
    """In a process of its own: seconds per step and peak memory above the start."""
    import threading

    with tempfile.TemporaryDirectory() as place:
        trainer = make_trainer(place, 512, backbone="resnet18", implementation=implementation)
        start, peak, done = anonymous_mb(), [0.0], threading.Event()

        def watch() -> None:
            while not done.wait(0.01):
                peak[0] = max(peak[0], anonymous_mb())

        watcher = threading.Thread(target=watch)
        watcher.start()
        trainer.train_step()
        took = [seconds(trainer.train_step) for _ in range(steps)]
        done.set()
        watcher.join()
    print(f"{statistics.median(took):.3f} {peak[0] - start:.1f}")


def compare_bank(steps: int) -> None:
    """Print the ratios of MemoryBank form to SimCLR form."""
    figures = {}
    for form in ("simclr", "memory-bank"):
        command = [sys.executable, __file__, "one-form", "--form", form, "--turns", str(steps)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        figures[form] = [float(value) for value in out.split()]
    (simclr_time, simclr_memory), (bank_time, bank_memory) = figures["simclr"], figures["memory-bank"]
    print(f"SimCLR form {simclr_time:.2f} s, {simclr_memory:,.0f} MB")
    print(f"MemoryBank form {bank_time:.2f} s, {bank_memory:,.0f} MB")
    ratios = bank_time / simclr_time, bank_memory / simclr_memory
    print(f"  ratio of time {ratios[0]:.2f} (bar: 0.6), of memory {ratios[1]:.2f} (bar: 0.8)", flush=True)


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["step", "lightly", "bank"])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--form", default="simclr")
    options = parser.parse_args()
    if options.parts == ["one-form"]:
        one_form(options.form, options.turns)
        return
    about = f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}"
    print(f"{about}, Python {platform.python_version()}")
    if "step" in options.parts:
        compare_step("small", 7 * options.turns)
        compare_step("resnet18", options.turns)
    if "lightly" in options.parts:
        compare_lightly(7 * options.turns)
    if "bank" in options.parts:
        compare_bank(options.turns)


if __name__ == "__main__":
    main()
