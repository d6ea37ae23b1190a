"""Perceptual hashes against naive loops, and under small changes of the image."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageFilter

from crlc.analysis.perceptual_hash import count_differing_bits, hash_images
from crlc.errors import UsageError
from tests.fixtures.images import make_smooth_images


def compute_naive_hash(pixels: np.ndarray) -> list[bool]:
    """Return the hash bits by loops, for a size that is divisible by 8 and 9."""
    high, wide = pixels.shape[0] // 8, pixels.shape[1] // 9
    grey = pixels[..., 0] * 0.299 + pixels[..., 1] * 0.587 + pixels[..., 2] * 0.114
    fields = [
        [grey[row * high : (row + 1) * high, column * wide : (column + 1) * wide].mean() for column in range(9)]
        for row in range(8)
    ]
    return [fields[row][column + 1] > fields[row][column] + 1.5 for row in range(8) for column in range(8)]


def test_hash_matches_a_naive_loop():
    pixels = make_smooth_images(20, 72)
    hashes = hash_images(pixels)
    for row in range(20):
        bits = np.unpackbits(hashes.hashes[row : row + 1].view(np.uint8)).astype(bool).tolist()
        assert bits == compute_naive_hash(pixels[row])


def test_hash_changes_little_under_small_changes_of_the_image():
    original = make_smooth_images(60, 64)
    changed = []
    for pixels in original:
        image = Image.fromarray(pixels).resize((90, 90)).filter(ImageFilter.GaussianBlur(0.6))
        saved = io.BytesIO()
        image.save(saved, "JPEG", quality=70)
        changed.append(np.asarray(Image.open(saved).resize((64, 64))))
    lighter = np.clip(original.astype(int) + 8, 0, 255).astype(np.uint8)
    first = hash_images(original)
    assert np.percentile(count_differing_bits(first.hashes, hash_images(np.stack(changed)).hashes), 90) <= 3
    assert np.percentile(count_differing_bits(first.hashes, hash_images(lighter).hashes), 90) <= 3
    others = count_differing_bits(first.hashes[:-1], first.hashes[1:])
    assert others.min() > 4


def test_hash_images_refuses_another_shape():
    with pytest.raises(UsageError, match=r"\(2, 4, 4\)"):
        hash_images(np.zeros((2, 4, 4), np.uint8))
