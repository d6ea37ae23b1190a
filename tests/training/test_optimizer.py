"""Optimizer and learning rate schedule."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from crlc.training.optimizer import compute_learning_rate, make_optimizer
from crlc.training.settings import TrainSettings

CONSTANT = TrainSettings().replace(epochs=10, learning_rate=0.4, schedule="constant")


def test_learning_rate_constant():
    assert {compute_learning_rate(CONSTANT, step, 5) for step in range(50)} == {0.4}


def test_learning_rate_cosine_ends_at_the_final_fraction():
    cosine = CONSTANT.replace(schedule="cosine")
    assert [compute_learning_rate(cosine, step, 5) for step in (0, 25, 50)] == pytest.approx([0.4, 0.2, 0.0])
    assert compute_learning_rate(cosine.replace(final_rate_fraction=0.1), 50, 5) == pytest.approx(0.04)


def test_learning_rate_cosine_by_epoch_changes_only_between_epochs():
    by_epoch = CONSTANT.replace(schedule="cosine-by-epoch")
    rates = [compute_learning_rate(by_epoch, step, 5) for step in range(50)]
    cosine = [compute_learning_rate(CONSTANT.replace(schedule="cosine"), 5 * epoch, 5) for epoch in range(10)]
    assert rates == pytest.approx([rate for rate in cosine for _ in range(5)])


def test_learning_rate_cooldown_falls_in_the_last_fifth():
    cooldown = CONSTANT.replace(schedule="cooldown")
    assert [compute_learning_rate(cooldown, step, 5) for step in (0, 40, 45, 50)] == pytest.approx([0.4, 0.4, 0.2, 0])


def test_learning_rate_warmup_rises_linearly():
    warm = CONSTANT.replace(warmup_epochs=2)
    rates = [compute_learning_rate(warm, step, 2) for step in range(6)]
    assert rates == pytest.approx([0.08, 0.16, 0.24, 0.32, 0.4, 0.4])


def test_adam_decays_by_an_l2_term_and_adamw_by_subtraction():
    weights = {}
    for name in ("adam", "adamw"):
        network = nn.Linear(1, 1, bias=False)
        nn.init.constant_(network.weight, 2.0)
        optimizer = make_optimizer(network, CONSTANT.replace(optimizer=name, weight_decay=0.5).optimization)
        network.weight.grad = torch.tensor([[-3.0]])
        optimizer.step()
        weights[name] = float(network.weight.detach())
    # Adam's first step has the length of the learning rate, 0.4, against the sign of -3 + 0.5 * 2.
    assert weights == pytest.approx({"adam": 2.4, "adamw": 2 - 0.4 * 0.5 * 2 + 0.4})


@pytest.mark.parametrize(
    ("name", "kind"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]
)
def test_optimizer_decays_weights_but_not_biases_and_norms(name: str, kind: type):
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = make_optimizer(network, CONSTANT.replace(optimizer=name, weight_decay=0.3).optimization)
    assert isinstance(optimizer, kind)
    decayed, others = optimizer.param_groups
    assert [tuple(p.shape) for p in decayed["params"]] == [(4, 3)]
    assert [tuple(p.shape) for p in others["params"]] == [(4,), (4,), (4,)]
    assert (decayed["weight_decay"], others["weight_decay"], decayed["lr"]) == (0.3, 0.0, 0.4)
