"""Folder of images with the splits train and test, for datasets of the miniatures that have none."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from crlc.arrays import IntArray

_TEST_EVERY = 5
"""One of so many images of each class is a test image."""


def find_test_images(classes: IntArray) -> IntArray:
    """Return the positions of the test images: every fifth image of each class, the same in every call."""
    members = (np.flatnonzero(classes == number)[_TEST_EVERY - 1 :: _TEST_EVERY] for number in np.unique(classes))
    return np.sort(np.concatenate(list(members)))


def write_split_folder(pixels: NDArray[np.uint8], classes: IntArray, folder: Path) -> None:
    """Write images as `split/class/number.png`, unless the folder exists.

    Args:
        pixels: grey images, (N, H, W).
        classes: class of each image, (N,).
        folder: receives the files, all of them or none.
    """
    if folder.exists():
        return
    unfinished = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    is_test = np.isin(np.arange(len(pixels)), find_test_images(classes))
    for split in ("train", "test"):
        for name in np.unique(classes):
            (unfinished / split / f"{name}").mkdir(parents=True)
    for number, (image, name, tested) in enumerate(zip(pixels, classes, is_test, strict=True)):
        Image.fromarray(image).save(unfinished / ("test" if tested else "train") / f"{name}" / f"{number:06d}.png")
    unfinished.replace(folder)
