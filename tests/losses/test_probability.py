"""Probability contrastive loss against naive loops, closed forms and values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from crlc.losses import CRITICS, bank_probability_contrastive, compute_critic, probability_contrastive, smooth
from tests.fixtures import naive_losses as naive
from tests.fixtures.random_outputs import make_probabilities

SIZES = [(1, 2, 2), (2, 5, 3), (3, 8, 10), (1, 4, 50)]


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("smoothing", [0.0, 0.01])
def test_probability_contrastive_matches_equations_7_to_9(critic: str, size: tuple[int, int, int], smoothing: float):
    first, second = make_probabilities(*size, seed=1), make_probabilities(*size, seed=2)
    expected = [
        naive.contrastive(
            naive.CRITICS[critic],
            [naive.smooth(row, smoothing) for row in first[s].tolist()],
            [naive.smooth(row, smoothing) for row in second[s].tolist()],
        )
        for s in range(size[0])
    ]
    torch.testing.assert_close(
        probability_contrastive(first, second, critic, smoothing), torch.tensor(expected), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("critic", CRITICS)
def test_compute_critic_matches_the_formulas(critic: str):
    first, second = make_probabilities(1, 3, 4, seed=1), make_probabilities(1, 2, 4, seed=2)
    expected = [[naive.CRITICS[critic](p, q) for q in second[0].tolist()] for p in first[0].tolist()]
    torch.testing.assert_close(compute_critic(critic, first, second)[0], torch.tensor(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("size", SIZES)
def test_bank_probability_contrastive_matches_equations_7_to_9(critic: str, size: tuple[int, int, int]):
    rows, own = make_probabilities(*size, seed=1), make_probabilities(*size, seed=2)
    drawn = make_probabilities(size[0], 7, size[2], seed=3)
    expected = []
    for s in range(size[0]):
        negatives = [naive.smooth(row, 0.01) for row in drawn[s].tolist()]
        losses = [
            naive.infonce(naive.CRITICS[critic], naive.smooth(row, 0.01), naive.smooth(positive, 0.01), negatives)
            for row, positive in zip(rows[s].tolist(), own[s].tolist(), strict=True)
        ]
        expected.append(sum(losses) / len(losses))
    torch.testing.assert_close(
        bank_probability_contrastive(rows, own, drawn, critic, 0.01), torch.tensor(expected), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("clusters", [2, 10, 100, 1000])
def test_log_dot_denominator_is_accurate_for_many_clusters(clusters: int):
    first, second = make_probabilities(1, 32, clusters, 1, 8.0), make_probabilities(1, 32, clusters, 2, 8.0)
    rows = smooth(torch.cat([first, second], dim=1)[0].double(), 0.01)
    others = (rows @ rows.T).masked_fill(torch.eye(64, dtype=torch.bool), 0).sum(dim=1)
    expected = (others.log() - (rows * rows.roll(32, 0)).sum(dim=1).log()).mean()
    value = probability_contrastive(first, second, "log-dot", 0.01)[0].double()
    assert value.item() == pytest.approx(expected.item(), abs=2e-6)


@pytest.mark.parametrize("critic", CRITICS)
def test_probability_contrastive_is_symmetric(critic: str):
    first, second = make_probabilities(2, 6, 4, 1), make_probabilities(2, 6, 4, 2)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    clusters = torch.tensor([2, 0, 3, 1])
    value = probability_contrastive(first, second, critic, 0.01)
    for other in (
        probability_contrastive(second, first, critic, 0.01),
        probability_contrastive(first[:, order], second[:, order], critic, 0.01),
        probability_contrastive(first[..., clusters], second[..., clusters], critic, 0.01),
    ):
        torch.testing.assert_close(other, value)


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize(("batch", "clusters"), [(2, 2), (8, 10), (64, 1000)])
def test_probability_contrastive_of_uniform_rows_is_the_log_of_contrasted_samples(
    critic: str, batch: int, clusters: int
):
    q = torch.full((1, batch, clusters), 1 / clusters)
    assert probability_contrastive(q, q, critic, 0.01).item() == pytest.approx(math.log(2 * batch - 1), abs=1e-4)
    drawn = torch.full((1, 9, clusters), 1 / clusters)
    assert bank_probability_contrastive(q, q, drawn, critic, 0.01).item() == pytest.approx(math.log(10), abs=1e-4)


def test_probability_contrastive_of_identical_one_hot_rows_equals_that_of_uniform_rows():
    q = torch.zeros(1, 4, 3)
    q[:, :, 1] = 1
    assert probability_contrastive(q, q, "log-dot", 0.0).item() == pytest.approx(math.log(7))


def test_probability_contrastive_of_two_perfect_clusters_matches_values_by_hand():
    # Rows of the same cluster have dot product 1: the other view, and both views of one other image.
    q = torch.eye(2).repeat_interleave(2, dim=0)[None]
    assert probability_contrastive(q, q, "log-dot", 0.0).item() == pytest.approx(math.log(3))
    # Smoothed by 0.1: 0.95² + 0.05² = 0.905 inside a cluster, 2 · 0.95 · 0.05 = 0.095 across.
    expected = math.log((3 * 0.905 + 4 * 0.095) / 0.905)
    assert probability_contrastive(q, q, "log-dot", 0.1).item() == pytest.approx(expected)


def compute_gradient(logits: Tensor, other_q: Tensor, smoothing: float) -> Tensor:
    """Return the gradient of -log(q̃ᵀq), the positive part of the log-dot critic, by the logits of q."""
    logits = logits.clone().requires_grad_()
    q = smooth(logits.softmax(dim=-1), smoothing)
    (-(smooth(other_q, smoothing) * q).sum(dim=-1).log()).sum().backward()
    return logits.grad


def test_log_dot_gradient_equals_its_closed_form():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=generator, dtype=torch.float64)
    other = torch.randn(6, generator=generator, dtype=torch.float64).softmax(0)
    q = logits.softmax(0)
    closed = q - other * q / (other @ q)  # q_c - q̃_c q_c / q̃ᵀq
    torch.testing.assert_close(compute_gradient(logits, other, 0.0), closed)


def test_smoothing_bounds_the_loss_of_two_views_in_different_clusters():
    q, partner = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])

    def compute_positive_part(smoothing: float) -> tuple[float, list[float]]:
        varied = q.clone().requires_grad_()
        loss = -(smooth(varied, smoothing) @ smooth(partner, smoothing)).log()
        loss.backward()
        return loss.item(), varied.grad.tolist()

    assert compute_positive_part(0.0)[0] == math.inf
    high, low = 0.99 + 0.01 / 3, 0.01 / 3
    dot = 2 * high * low + low * low
    loss, gradient = compute_positive_part(0.01)
    assert loss == pytest.approx(-math.log(dot), rel=1e-5)
    # The gradient points towards the partner's cluster, in proportion to the partner's confidence.
    assert gradient == pytest.approx([-0.99 * low / dot, -0.99 * high / dot, -0.99 * low / dot], rel=1e-5)


@pytest.mark.parametrize("critic", CRITICS)
def test_probability_contrastive_gradients_match_finite_differences_and_are_finite_for_one_hot_rows(critic: str):
    first = make_probabilities(2, 3, 4, 1).double().requires_grad_()
    second = make_probabilities(2, 3, 4, 2).double().requires_grad_()

    def loss(a: Tensor, b: Tensor) -> Tensor:
        return probability_contrastive(a, b, critic, 0.01)

    numeric = torch.zeros_like(first)
    for index in range(first.numel()):
        step = torch.zeros(first.numel(), dtype=torch.float64)
        step[index] = 1e-3
        change = loss(first + step.view_as(first), second) - loss(first - step.view_as(first), second)
        numeric.view(-1)[index] = change.sum().item() / 2e-3
    loss(first, second).sum().backward()
    torch.testing.assert_close(first.grad, numeric, rtol=2e-2, atol=2e-3)
    one_hot = torch.eye(4)[None, [0, 1, 2]].requires_grad_()
    probability_contrastive(one_hot, torch.eye(4)[None, [3, 1, 2]], critic, 0.01).sum().backward()
    assert torch.isfinite(one_hot.grad).all()


def test_bank_probability_contrastive_gradient_is_zero_for_a_uniform_bank():
    logits = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    uniform = torch.full((2, 9, 4), 0.25)
    bank_probability_contrastive(logits.softmax(2), uniform[:, :5], uniform, "log-dot", 0.01).sum().backward()
    assert logits.grad.abs().max() < 1e-7
