"""Memory of training does not grow with the number of images: rows go to files as they come."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

SCRIPT = """
import sys, threading
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import numpy as np, torch
from crlc.training.images import TrainingImages
from crlc.training.run_folder import RunFolder
from crlc.training.trainer import Trainer
from tests.training.test_trainer import CPU, TINY

def anonymous_kb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

torch.set_num_threads(1)
place, count = Path(sys.argv[1]), int(sys.argv[2])
np.random.default_rng(0).integers(0, 256, (count, 16, 16, 3), dtype=np.uint8).tofile(place / "pixels")
pixels = np.memmap(place / "pixels", np.uint8, "r", shape=(count, 16, 16, 3))
images = TrainingImages(np.arange(1, count + 1), 16, lambda ids: pixels[ids - 1])
(place / "run").mkdir()
# Few steps, however many images there are: what is measured is what depends on their number.
settings = replace(TINY, epochs=1, batch_size=512, subheads=2, clusters=10, log_steps=1000)
trainer = Trainer(images, settings, RunFolder(place / "run"), CPU)
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


def grown_by(place: Path, count: int) -> float:
    """Megabytes of anonymous memory that the end of a run takes on top of a training step."""
    place.mkdir()
    command = [sys.executable, "-c", SCRIPT, str(place), str(count), str(ROOT)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return int(outcome.stdout) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_times_the_images_take_no_more_memory(tmp_path: Path):
    few, many = grown_by(tmp_path / "few", 4_000), grown_by(tmp_path / "many", 40_000)
    # Held in memory, q, z and h of 36,000 more images alone would take 29 MB.
    assert many - few < 8
