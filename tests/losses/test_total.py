"""Weighted sum of the terms, by hand."""

from __future__ import annotations

import pytest
import torch

from crlc.losses import LossWeights, combine_loss_terms


def test_combine_loss_terms_weights_terms_as_in_equations_11_and_12():
    weights = LossWeights(entropy=2.0, feature=10.0, labels=3.0)
    terms = combine_loss_terms(
        weights,
        probability=torch.tensor([1.0, 2.0]),
        entropy=torch.tensor([0.5, 0.25]),
        penalty=torch.tensor([0.1, 0.3]),
        feature=torch.tensor(0.7),
        labels=torch.tensor([0.2, 0.4]),
    )
    assert terms.clustering.tolist() == pytest.approx([0.6, 2.7])  # 1 - 2 · 0.5 + 3 · 0.2, 2 - 2 · 0.25 + 3 · 0.4
    assert terms.total.item() == pytest.approx(0.75 + 0.2 + 3 * 0.3 + 10 * 0.7)
    own = LossWeights(entropy=torch.tensor([2.0, 0.0]), feature=1.0)  # a λ1 for each subhead
    each = combine_loss_terms(own, probability=torch.ones(2), entropy=torch.tensor([0.5, 0.25]), penalty=torch.zeros(2))
    assert each.clustering.tolist() == pytest.approx([0.0, 1.0])
    without = combine_loss_terms(weights, probability=torch.ones(2), entropy=torch.zeros(2), penalty=torch.zeros(2))
    assert (without.total.item(), without.feature.item(), without.labels.tolist()) == (1.0, 0.0, [0.0, 0.0])
