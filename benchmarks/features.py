"""Speed of computing features from image files: `python benchmarks/features.py FOLDER --images 3000`.

The measured pipeline is everything from image files to vectors on disk: decoding and resizing (in processes),
normalisation, the default backbone, writing; once with the engine torch and once with the default engine. For
comparison, the backbone alone with torch on prepared tensors, as it is and with folded batch norms. Then the default
engine again beside one busy process per core. All are measured alternately, in images/s. Targets: the default engine
has 2.5 times the speed of torch, and beside busy processes 0.4 of its own.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.support import create_parser, read_commit
from crlc.data.augmentation import to_images
from crlc.data.options import ImportOptions
from crlc.model.folding import fold_batch_norms
from crlc.subprocesses import count_available_cores
from crlc.training.feature_cache import _BATCH_IMAGES, load_or_compute_features
from crlc.training.images import load_images
from crlc.training.network_builder import BuiltNetwork, build_network
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace import Workspace

_BACKBONE_IMAGES = 512


def measure_pipeline(folder: str, count: int, built: BuiltNetwork, engine: str) -> float:
    """Return the images per second from image files to stored vectors."""
    with tempfile.TemporaryDirectory() as temporary:
        started = time.perf_counter()
        options = ImportOptions(size=FROZEN_HEADS.data.image_size, limit=count)
        dataset, report = Workspace(Path(temporary)).import_dataset(folder, options=options)
        images = load_images(dataset, FROZEN_HEADS.data.image_size)
        load_or_compute_features(built.network, images, built.identity, Path(temporary), engine=engine)
        return report.readable / (time.perf_counter() - started)


@torch.inference_mode()
def measure_backbone(ready: torch.Tensor, backbone: nn.Module) -> float:
    """Return the images per second of a backbone on prepared tensors."""
    started = time.perf_counter()
    for start in range(0, len(ready), _BATCH_IMAGES):
        backbone(ready[start : start + _BATCH_IMAGES])
    return len(ready) / (time.perf_counter() - started)


@contextmanager
def keep_busy() -> Iterator[None]:
    """Keep every core busy with another process."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count_available_cores())]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    """Measure all variants alternately, and print their medians and ratios."""
    parser = create_parser(__doc__)
    parser.add_argument("folder")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    built = build_network(FROZEN_HEADS.replace(clusters=2))
    built.network.eval()
    size = FROZEN_HEADS.data.image_size
    pixels = torch.randint(256, (_BACKBONE_IMAGES, size, size, 3), dtype=torch.uint8)
    ready = (to_images(pixels) - built.network.mean) / built.network.std
    print(f"{options.images} images at {size} px, {options.threads} threads, commit {read_commit()}")
    original = built.network.backbone
    folded = fold_batch_norms(original, ready[:2])
    measure_pipeline(options.folder, 256, built, "auto")  # converts the backbone once
    found: dict[str, list[float]] = {}
    for _ in range(options.turns):
        turn = {
            "files to vectors, torch": measure_pipeline(options.folder, options.images, built, "torch"),
            "files to vectors, default engine": measure_pipeline(options.folder, options.images, built, "auto"),
            "backbone alone, torch": measure_backbone(ready, original),
            "backbone alone, torch, folded": measure_backbone(ready, folded),
        }
        with keep_busy():
            turn["files to vectors, default engine, beside busy processes"] = measure_pipeline(
                options.folder, options.images, built, "auto"
            )
        for name, value in turn.items():
            found.setdefault(name, []).append(value)
    print("| variant | images/s, median | turns |\n|---|---|---|")
    for name, values in found.items():
        print(f"| {name} | {statistics.median(values):.0f} | {', '.join(f'{value:.0f}' for value in values)} |")
    by_torch, by_default, alone, _, busy = (statistics.median(values) for values in found.values())
    print(
        f"default engine against torch: {by_default / by_torch:.2f} (target 2.5), against the backbone alone ", end=""
    )
    print(f"{by_default / alone:.2f}; beside busy processes: {busy / by_default:.2f} of its speed (target 0.4)")


if __name__ == "__main__":
    main()
