"""Type aliases of NumPy arrays, one per element type or meaning, shared by all packages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
"""Row indices, cluster numbers or counts."""

ImageIds = NDArray[np.int64]
"""Ids of images, as in the manifest."""

FloatArray = NDArray[np.float32]
"""Features, probabilities, scores or coordinates."""

DoubleArray = NDArray[np.float64]
"""Sums, means and statistics over many images."""

LabelArray = NDArray[np.integer[Any]]
"""Cluster or class numbers of any integer type."""

BoolArray = NDArray[np.bool_]
"""A mask of images or rows."""

Features = NDArray[Any]
"""A table (N, d) with one row per image, of any float type; may be a memory map larger than memory."""
