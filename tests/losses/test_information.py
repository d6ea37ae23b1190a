"""Cluster information and the InfoNCE bound, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from crlc.losses import cluster_information, infonce_bound, joint_probability


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (torch.eye(4), torch.eye(4), 1.0),  # confident, balanced, agreeing
        (torch.full((4, 4), 0.25), torch.full((4, 4), 0.25), 0.0),  # uniform
        (torch.eye(4)[[0, 0, 0, 0]], torch.eye(4)[[0, 0, 0, 0]], 0.0),  # collapsed
        (torch.eye(4)[[0, 0, 1, 1]], torch.eye(4)[[0, 0, 1, 1]], 0.5),  # two of four clusters used
    ],
)
def test_cluster_information_matches_values_by_hand(first: Tensor, second: Tensor, expected: float):
    joint = joint_probability(first[None], second[None])
    assert joint.sum().item() == pytest.approx(1.0)
    torch.testing.assert_close(joint, joint.transpose(1, 2))
    assert cluster_information(joint).item() == pytest.approx(expected, abs=1e-6)


def test_infonce_bound_matches_values_by_hand():
    bounds = infonce_bound(torch.tensor([math.log(511), 0.0]), 511)
    torch.testing.assert_close(bounds, torch.tensor([0.0, math.log(511)]), atol=1e-6, rtol=1e-6)
