"""Objectives of a training step: which images and bank rows each term of the loss uses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crlc.model import CrlcNetwork, build_backbone
from crlc.model.memory_bank import MemoryBank
from crlc.training.randomness import make_generator
from crlc.training.steps import Batch, compute_memory_bank_objective, compute_simclr_objective
from tests.fixtures.training_runs import TINY


@pytest.fixture
def network() -> CrlcNetwork:
    torch.manual_seed(0)
    return CrlcNetwork(build_backbone("small", 16), clusters=3, subheads=2)


def make_batch(views: int, clusterable: torch.Tensor | None = None) -> Batch:
    images = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    return Batch((images,) * views, torch.arange(8), make_generator(0, "step"), clusterable)


def test_simclr_objective_leaves_images_out_of_l_cluster_only(network: CrlcNetwork):
    batch = make_batch(2, torch.tensor([True] * 5 + [False] * 3))
    some = compute_simclr_objective(network, batch, TINY)
    every = compute_simclr_objective(network, batch._replace(clusterable=None), TINY)
    assert some.counts.sum(dim=1).tolist() == [10.0, 10.0]  # two views of five images
    assert (some.probability_samples, some.feature_samples) == (9, 15)
    assert (every.probability_samples, every.feature_samples) == (15, 15)
    torch.testing.assert_close(some.terms.feature, every.terms.feature)
    assert not torch.allclose(some.terms.probability, every.terms.probability)


def test_simclr_objective_of_a_batch_without_l_cluster_is_l_fc(network: CrlcNetwork):
    terms = compute_simclr_objective(network, make_batch(2, torch.zeros(8, dtype=torch.bool)), TINY).terms
    torch.testing.assert_close(terms.total, TINY.feature_loss.feature_weight * terms.feature)
    terms.total.backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


def test_memory_bank_objective_uses_the_bank_before_its_update(network: CrlcNetwork):
    bank = MemoryBank(20, 3, 2, 0.5, torch.Generator().manual_seed(0))
    settings = TINY.replace(clusters=3, subheads=2, bank_negatives=16)
    outcome = compute_memory_bank_objective(network, make_batch(1), settings, bank)
    # Before the first update every row is uniform, so the positive and 12 rows outside the batch are equally likely.
    torch.testing.assert_close(outcome.terms.probability, torch.full((2,), np.log(13.0), dtype=torch.float32))
    assert (outcome.feature_samples, outcome.probability_samples) == (13, 13)
    assert not torch.allclose(bank.probabilities[:, :8], torch.full((2, 8, 3), 1 / 3))
    assert (bank.probabilities[:, 8:] == 1 / 3).all()


def test_last_subhead_has_the_entropy_weight_of_unbalanced_clusters(network: CrlcNetwork):
    settings = TINY.replace(
        method="two-stage", pairs="neighbours", clusters=3, subheads=2, unbalanced_subheads=1, entropy_weight=2.0
    )
    terms = compute_simclr_objective(network, make_batch(2), settings.replace(unbalanced_entropy_weight=-0.25)).terms
    weights = torch.tensor([2.0, -0.25])
    torch.testing.assert_close(terms.clustering, terms.probability - weights * terms.entropy + terms.penalty)
