"""Comparison of two representations of the same images."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.representation import compare_representations

RANDOM = np.random.default_rng(0)
GROUP = np.repeat(np.arange(4), 50)
GROUPED = (10 * np.eye(4)[GROUP] + RANDOM.normal(0, 0.1, (200, 4))).astype(np.float32)
NOISE = RANDOM.normal(0, 1, (200, 4)).astype(np.float32)


def test_compare_representations_of_equal_groups_is_one_for_both():
    mirrored = GROUPED[:, ::-1].copy()
    assert compare_representations(GROUPED, mirrored, 4) == pytest.approx((1.0, 1.0))


def test_compare_representations_prefers_groups_that_the_other_confirms():
    # The other representation knows the groups, too, but is stretched along a direction without meaning: its own
    # clusters divide that direction, while its neighbours are mostly of one group.
    stretched = np.concatenate([GROUPED, 20 * RANDOM.normal(0, 1, (200, 1))], axis=1).astype(np.float32)
    by_groups, by_stretched = compare_representations(GROUPED, stretched, 4)
    assert by_groups > by_stretched + 0.1


def test_compare_representations_of_noise_is_near_zero():
    assert max(compare_representations(GROUPED, NOISE, 4)) < 0.15
