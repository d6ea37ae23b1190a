"""Which images a step gets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from crlc.data.augment import RECIPES
from crlc.training.batches import BatchMaker
from crlc.training.distributed import ALONE
from crlc.training.images import images_from_array
from crlc.training.inputs import ImageInputs
from crlc.training.settings import TrainSettings

CLUSTERABLE = np.array([True, False, False, True, False, True, False, False, False, False])


def positions_of_an_epoch(feature_weight: float) -> list[int]:
    """In batches of 5 of ten images, three of which have a cluster."""
    images = replace(images_from_array(np.zeros((10, 8, 8, 3), np.uint8)), clusterable=CLUSTERABLE)
    settings = TrainSettings(clusters=2, batch_size=5, image_size=8, feature_weight=feature_weight)
    maker = BatchMaker(ImageInputs(images, RECIPES["none"], torch.device("cpu")), images, settings, 5, ALONE)
    return [position for step in range(2) for position in maker.make(step, 0, step).positions.tolist()]


def test_every_image_comes_once_in_an_epoch_while_the_rl_head_learns():
    assert sorted(positions_of_an_epoch(1.0)) == list(range(10))


def test_images_that_have_no_cluster_are_left_out_where_only_clusters_are_learned():
    positions = positions_of_an_epoch(0.0)
    assert len(positions) == 10
    assert sorted(positions[:3]) == sorted(positions[3:6]) == sorted(positions[6:9]) == [0, 3, 5]
