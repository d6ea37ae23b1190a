"""Batches: selection of images and labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from crlc.data.augmentation import RECIPES
from crlc.training.batches import BatchBuilder, LabelTargets
from crlc.training.images import TrainingImages
from crlc.training.inputs import ImageInputs
from crlc.training.settings import TrainSettings
from crlc.training.stages import Stage

CLUSTERABLE = np.array([True, False, False, True, False, True, False, False, False, False])


def draw_epoch_positions(steps: int = 2, **changes: Any) -> list[list[int]]:
    """Return the positions in the batches of 5 of an epoch, with ten images, of which three are clusterable."""
    images = replace(TrainingImages.from_array(np.zeros((10, 8, 8, 3), np.uint8)), clusterable=CLUSTERABLE)
    stage = Stage("training", TrainSettings().replace(clusters=2, image_size=8, **changes))
    inputs = ImageInputs(images, RECIPES["none"], torch.device("cpu"))
    builder = BatchBuilder(inputs, images, stage, 5 if steps > 1 else 3)
    return [builder.build(step, 0, step).positions.tolist() for step in range(steps)]


def test_batch_builder_draws_every_image_once_per_epoch_with_l_fc():
    assert sorted(position for batch in draw_epoch_positions() for position in batch) == list(range(10))


@pytest.mark.parametrize(
    "changes", [{"feature_weight": 0.0}, {"method": "two-stage", "pairs": "neighbours"}], ids=["no L_FC", "neighbours"]
)
def test_batch_builder_draws_clusterable_images_once_per_epoch_where_the_others_have_no_use(changes: dict[str, Any]):
    (batch,) = draw_epoch_positions(1, **changes)
    assert sorted(batch) == [0, 3, 5]


def test_batch_builder_fills_a_fraction_of_every_batch_with_clusterable_images():
    batches = draw_epoch_positions(clusterable_fraction=0.4)
    clusterable = [[position for position in batch if CLUSTERABLE[position]] for batch in batches]
    assert [len(own) for own in clusterable] == [2, 2]
    drawn = [position for own in clusterable for position in own]
    assert set(drawn) == {0, 3, 5}  # each of the three once before one is repeated
    others = [position for batch in batches for position in batch if not CLUSTERABLE[position]]
    assert len(set(others)) == 6


@pytest.mark.parametrize("fraction", [0.2, 0.6, 0.8, 1.0])
def test_batch_builder_never_draws_an_image_twice_in_a_batch(fraction: float):
    # With 0.8, a batch of 5 would have four of the three clusterable images.
    for seed in range(20):
        for batch in draw_epoch_positions(clusterable_fraction=fraction, seed=seed):
            assert len(set(batch)) == len(batch) == 5


def test_batch_builder_fills_batches_with_clusterable_images_where_others_are_few():
    clusterable = np.arange(10) != 4
    images = replace(TrainingImages.from_array(np.zeros((10, 8, 8, 3), np.uint8)), clusterable=clusterable)
    stage = Stage("training", TrainSettings().replace(clusters=2, image_size=8, clusterable_fraction=0.5))
    builder = BatchBuilder(ImageInputs(images, RECIPES["none"], torch.device("cpu")), images, stage, 5)
    assert [len(set(builder.build(step, 0, step).positions.tolist())) for step in range(2)] == [5, 5]


def test_batches_without_repetition_are_drawn_as_in_earlier_versions():
    assert draw_epoch_positions(clusterable_fraction=0.4) == [[5, 0, 7, 4, 2], [3, 5, 9, 1, 6]]


def test_batch_builder_draws_every_label_equally_often():
    pixels = np.random.default_rng(0).integers(0, 256, (10, 8, 8, 3), dtype=np.uint8)
    images = TrainingImages.from_array(pixels)
    inputs = ImageInputs(images, RECIPES["none"], torch.device("cpu"))
    settings = TrainSettings().replace(image_size=8, labelled_batch_size=9)
    labels = LabelTargets(np.array([3, 5, 7]), np.array([0, 1, 2]))
    batch = BatchBuilder(inputs, images, Stage("training", settings), 5, labels=labels).build(step=0, epoch=0, index=0)
    assert batch.labelled is not None
    assert batch.targets is not None
    assert torch.bincount(batch.targets).tolist() == [3, 3, 3]
    for row, target in zip(batch.labelled, batch.targets.tolist(), strict=True):
        torch.testing.assert_close(row, inputs.read(np.array([labels.positions[target]]))[0])
