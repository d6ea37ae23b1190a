"""Memory of a run: independent of the number of images, because rows are written to files batch by batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPT = """
import sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import numpy as np, torch
from crlc.training.images import TrainingImages
from crlc.runs.folder import RunFolder
from crlc.training.trainer import Trainer
from tests.fixtures.training_runs import CPU, TINY

def anonymous_kb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

torch.set_num_threads(1)
folder, count = Path(sys.argv[1]), int(sys.argv[2])
np.random.default_rng(0).integers(0, 256, (count, 16, 16, 3), dtype=np.uint8).tofile(folder / "pixels")
pixels = np.memmap(folder / "pixels", np.uint8, "r", shape=(count, 16, 16, 3))
images = TrainingImages(np.arange(1, count + 1), 16, lambda ids: pixels[ids - 1])
(folder / "run").mkdir()
# Few steps for any number of images: only memory that depends on their number is measured.
settings = TINY.replace(epochs=1, batch_size=512, subheads=2, clusters=10, log_steps=1000)
trainer = Trainer(images, settings, RunFolder(folder / "run"), CPU)
trainer.train_step()
before, peak, done = anonymous_kb(), [0], threading.Event()
def watch():
    while not done.wait(0.002):
        peak[0] = max(peak[0], anonymous_kb())
watcher = threading.Thread(target=watch)
watcher.start()
trainer.step = trainer.length.steps - 1
trainer.train_step()
trainer._last_checkpoint = 0.0
trainer._finish()
done.set()
watcher.join()
print(peak[0] - before)
"""


def measure_growth(place: Path, count: int) -> float:
    """Return the anonymous memory in MB that the end of a run needs in addition to a training step."""
    place.mkdir()
    command = [sys.executable, "-c", SCRIPT, str(place), str(count), str(ROOT)]
    # One arena: with one per thread, memory that glibc holds back differs by 10 MB from run to run.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "1000000"}
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return int(outcome.stdout) / 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_training_memory_does_not_grow_with_the_number_of_images(tmp_path: Path):
    few, many = measure_growth(tmp_path / "few", 4_000), measure_growth(tmp_path / "many", 24_000)
    # Held in memory, q, z and h of 20,000 more images alone would take 16 MB.
    assert many - few < 8
