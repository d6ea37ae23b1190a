"""What the tests of training commands share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def small_set(tmp_path: Path) -> Path:
    """A NumPy archive of 200 small grey pictures of two kinds."""
    generator = np.random.default_rng(0)
    images = generator.normal(20, 8, (200, 16, 16))
    images[::2, 4:12] += 150
    images[1::2, :, 4:12] += 150
    np.savez(tmp_path / "set.npz", images=images.clip(0, 255).astype(np.uint8), labels=np.arange(200) % 2)
    return tmp_path / "set.npz"
