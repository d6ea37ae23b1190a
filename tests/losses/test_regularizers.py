"""Entropy, logit penalty and cross-entropy, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from crlc.losses import labelled_cross_entropy, logit_penalty, mean_entropy, soft_cross_entropy


def test_mean_entropy_is_the_entropy_of_the_mean():
    q = torch.eye(4)[None]  # every image is confident, the clusters are balanced
    assert mean_entropy(q).item() == pytest.approx(math.log(4))
    assert mean_entropy(q[:, :1]).item() == pytest.approx(0.0)


def test_logit_penalty_is_quadratic_in_the_excess():
    logits = torch.tensor([[[25.0, -25.0, 3.0], [27.0, -29.0, 0.0]]], requires_grad=True)
    penalty = logit_penalty(logits)
    assert penalty.item() == pytest.approx((0.5 * 0.01 * (2**2 + 4**2)) / 2)
    penalty.sum().backward()
    assert logits.grad[0, 1].tolist() == pytest.approx([0.01, -0.02, 0.0])


def test_mean_entropy_has_a_finite_gradient_where_probabilities_underflow():
    logits = torch.tensor([[[300.0, 0.0, -300.0]]], requires_grad=True)
    mean_entropy(logits.softmax(dim=2)).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_labelled_cross_entropy_is_per_subhead():
    logits = torch.log(torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[0.1, 0.9], [0.9, 0.1]]]))
    losses = labelled_cross_entropy(logits, torch.tensor([0, 1]))
    assert losses.tolist() == pytest.approx(
        [-(math.log(0.5) + math.log(0.75)) / 2, -(math.log(0.1) + math.log(0.1)) / 2], rel=1e-5
    )


def test_soft_cross_entropy_weights_the_logarithms_by_the_targets():
    logits = torch.log(torch.tensor([[[0.5, 0.5], [0.25, 0.75]]]))
    loss = soft_cross_entropy(logits, torch.tensor([[1.0, 0.0], [0.4, 0.6]]))
    assert loss.tolist() == pytest.approx([-(math.log(0.5) + 0.4 * math.log(0.25) + 0.6 * math.log(0.75)) / 2])
