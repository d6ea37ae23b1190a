"""Feature contrastive loss against naive loops and values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from crlc.losses import bank_feature_contrastive, feature_contrastive
from tests.fixtures import naive_losses as naive
from tests.fixtures.random_outputs import make_unit_vectors


@pytest.mark.parametrize(("batch", "dimensions"), [(2, 3), (5, 8), (9, 128)])
def test_feature_contrastive_matches_equation_5(batch: int, dimensions: int):
    first, second = make_unit_vectors(batch, dimensions, 1), make_unit_vectors(batch, dimensions, 2)
    expected = naive.contrastive(lambda a, b: naive.dot(a, b) / 0.1, first.tolist(), second.tolist())
    assert feature_contrastive(first, second, 0.1).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("batch", "dimensions"), [(2, 3), (5, 8), (9, 128)])
def test_bank_feature_contrastive_matches_equation_5(batch: int, dimensions: int):
    first, second = make_unit_vectors(batch, dimensions, 1), make_unit_vectors(batch, dimensions, 2)
    drawn = make_unit_vectors(6, dimensions, 3)
    losses = [
        naive.infonce(lambda a, b: naive.dot(a, b) / 0.1, row, own, drawn.tolist())
        for row, own in zip(first.tolist(), second.tolist(), strict=True)
    ]
    value = bank_feature_contrastive(first, second, drawn, 0.1).item()
    assert value == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_feature_contrastive_is_symmetric():
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    z, other_z = make_unit_vectors(6, 5, 1), make_unit_vectors(6, 5, 2)
    torch.testing.assert_close(feature_contrastive(other_z[order], z[order], 0.1), feature_contrastive(z, other_z, 0.1))


def test_feature_contrastive_of_orthogonal_features_matches_a_value_by_hand():
    z = torch.eye(4)
    # Each row: the other view at similarity 1, the 6 others at 0, temperature 0.5.
    assert feature_contrastive(z, z, 0.5).item() == pytest.approx(math.log((math.e**2 + 6) / math.e**2))
