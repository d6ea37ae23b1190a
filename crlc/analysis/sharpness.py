"""Sharpness of images, to compare copies of one image with each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.arrays import FloatArray

_GREY_WEIGHTS = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_MIN_SIDE = 3


def measure_sharpness(pixels: NDArray[Any]) -> FloatArray:
    """Return the standard deviation of the Laplacian of each image, (N,); 0 for images below 3 px.

    Args:
        pixels: images of the same size, (N, S, S, 3) uint8.
    """
    if min(pixels.shape[1:3]) < _MIN_SIDE:
        return np.zeros(len(pixels), np.float32)
    grey = pixels.astype(np.float32) @ _GREY_WEIGHTS
    middle = grey[:, 1:-1, 1:-1]
    around = grey[:, :-2, 1:-1] + grey[:, 2:, 1:-1] + grey[:, 1:-1, :-2] + grey[:, 1:-1, 2:]
    sharpness: FloatArray = (around - 4 * middle).std(axis=(1, 2)).astype(np.float32)
    return sharpness
