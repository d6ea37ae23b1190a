"""Batches: selection of images and labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from crlc.data.augmentation import RECIPES
from crlc.training.batches import BatchBuilder, LabelTargets
from crlc.training.images import TrainingImages
from crlc.training.inputs import ImageInputs
from crlc.training.settings import TrainSettings

CLUSTERABLE = np.array([True, False, False, True, False, True, False, False, False, False])


def draw_epoch_positions(feature_weight: float) -> list[int]:
    """Return the positions in an epoch of two batches of 5, with ten images, of which three are clusterable."""
    images = replace(TrainingImages.from_array(np.zeros((10, 8, 8, 3), np.uint8)), clusterable=CLUSTERABLE)
    settings = TrainSettings().replace(clusters=2, batch_size=5, image_size=8, feature_weight=feature_weight)
    builder = BatchBuilder(ImageInputs(images, RECIPES["none"], torch.device("cpu")), images, settings, 5)
    return [position for step in range(2) for position in builder.build(step, 0, step).positions.tolist()]


def test_batch_builder_draws_every_image_once_per_epoch_with_l_fc():
    assert sorted(draw_epoch_positions(1.0)) == list(range(10))


def test_batch_builder_repeats_clusterable_images_without_l_fc():
    positions = draw_epoch_positions(0.0)
    assert len(positions) == 10
    assert sorted(positions[:3]) == sorted(positions[3:6]) == sorted(positions[6:9]) == [0, 3, 5]


def test_batch_builder_draws_every_label_equally_often():
    pixels = np.random.default_rng(0).integers(0, 256, (10, 8, 8, 3), dtype=np.uint8)
    images = TrainingImages.from_array(pixels)
    inputs = ImageInputs(images, RECIPES["none"], torch.device("cpu"))
    settings = TrainSettings().replace(image_size=8, labelled_batch_size=9)
    labels = LabelTargets(np.array([3, 5, 7]), np.array([0, 1, 2]))
    batch = BatchBuilder(inputs, images, settings, 5, labels=labels).build(step=0, epoch=0, index=0)
    assert batch.labelled is not None
    assert batch.targets is not None
    assert torch.bincount(batch.targets).tolist() == [3, 3, 3]
    for row, target in zip(batch.labelled, batch.targets.tolist(), strict=True):
        torch.testing.assert_close(row, inputs.read(np.array([labels.positions[target]]))[0])
