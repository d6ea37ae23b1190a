"""How a cluster falls apart."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.splitting import split_by_features
from crlc.errors import UsageError


def test_the_largest_part_comes_first():
    features = np.array([[0, 0], [9, 9], [0, 1], [1, 0], [9, 8], [-9, 9]], np.float32)
    assert split_by_features(features, 3).tolist() == [0, 1, 0, 0, 1, 2]


def test_a_seed_fixes_the_parts_and_every_image_may_be_its_own():
    features = np.random.default_rng(0).normal(size=(40, 5))
    np.testing.assert_array_equal(split_by_features(features, 4, seed=3), split_by_features(features, 4, seed=3))
    assert sorted(split_by_features(features[:5], 5).tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("features", "parts", "words"),
    [
        (np.eye(4), 1, "4 images cannot be split into 1: give a number from 2"),
        (np.eye(4), 0, "cannot be split into 0"),
        (np.eye(4), 5, "cannot be split into 5"),
        (np.zeros((0, 3)), 2, "0 images cannot be split"),
        (np.ones((6, 3)), 2, "These 6 images are too much alike to be split into 2"),
    ],
)
def test_what_cannot_be_split(features: np.ndarray, parts: int, words: str):
    with pytest.raises(UsageError, match=words):
        split_by_features(features, parts)
