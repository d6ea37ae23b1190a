"""Losses against naive loops, closed forms and values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from crlc.losses import (
    CRITICS,
    LossWeights,
    bank_feature_contrastive,
    bank_probability_contrastive,
    cluster_information,
    combine,
    feature_contrastive,
    infonce_bound,
    joint_probability,
    labelled_cross_entropy,
    logit_penalty,
    mean_entropy,
    probability_contrastive,
    smooth,
)
from tests.losses import naive

SIZES = [(1, 2, 2), (2, 5, 3), (3, 8, 10), (1, 4, 50)]


def probabilities(subheads: int, batch: int, clusters: int, seed: int = 0, sharpness: float = 3.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (sharpness * torch.randn(subheads, batch, clusters, generator=generator)).softmax(dim=2)


def unit_vectors(count: int, dimensions: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return functional.normalize(torch.randn(count, dimensions, generator=generator), dim=1)


# ---- against naive loops


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("smoothing", [0.0, 0.01])
def test_probability_contrastive_is_the_formula(critic: str, size: tuple[int, int, int], smoothing: float):
    first, second = probabilities(*size, seed=1), probabilities(*size, seed=2)
    expected = [
        naive.contrastive(
            naive.CRITICS[critic],
            [naive.smoothed(row, smoothing) for row in first[s].tolist()],
            [naive.smoothed(row, smoothing) for row in second[s].tolist()],
        )
        for s in range(size[0])
    ]
    torch.testing.assert_close(
        probability_contrastive(first, second, critic, smoothing), torch.tensor(expected), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("size", SIZES)
def test_bank_probability_contrastive_is_the_formula(critic: str, size: tuple[int, int, int]):
    rows, own = probabilities(*size, seed=1), probabilities(*size, seed=2)
    drawn = probabilities(size[0], 7, size[2], seed=3)
    expected = []
    for s in range(size[0]):
        negatives = [naive.smoothed(row, 0.01) for row in drawn[s].tolist()]
        losses = [
            naive.infonce(naive.CRITICS[critic], naive.smoothed(row, 0.01), naive.smoothed(positive, 0.01), negatives)
            for row, positive in zip(rows[s].tolist(), own[s].tolist(), strict=True)
        ]
        expected.append(sum(losses) / len(losses))
    torch.testing.assert_close(
        bank_probability_contrastive(rows, own, drawn, critic, 0.01), torch.tensor(expected), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(("batch", "dimensions"), [(2, 3), (5, 8), (9, 128)])
def test_feature_contrastive_is_equation_5(batch: int, dimensions: int):
    first, second = unit_vectors(batch, dimensions, 1), unit_vectors(batch, dimensions, 2)
    expected = naive.contrastive(lambda a, b: naive.dot(a, b) / 0.1, first.tolist(), second.tolist())
    assert feature_contrastive(first, second, 0.1).item() == pytest.approx(expected, rel=1e-4)
    drawn = unit_vectors(6, dimensions, 3)
    losses = [
        naive.infonce(lambda a, b: naive.dot(a, b) / 0.1, row, own, drawn.tolist())
        for row, own in zip(first.tolist(), second.tolist(), strict=True)
    ]
    value = bank_feature_contrastive(first, second, drawn, 0.1).item()
    assert value == pytest.approx(sum(losses) / len(losses), rel=1e-4)


@pytest.mark.parametrize("clusters", [2, 10, 100, 1000])
def test_the_linear_denominator_is_accurate_for_any_number_of_clusters(clusters: int):
    first, second = probabilities(1, 32, clusters, 1, 8.0), probabilities(1, 32, clusters, 2, 8.0)
    rows = smooth(torch.cat([first, second], dim=1)[0].double(), 0.01)
    others = (rows @ rows.T).masked_fill(torch.eye(64, dtype=torch.bool), 0).sum(dim=1)
    expected = (others.log() - (rows * rows.roll(32, 0)).sum(dim=1).log()).mean()
    value = probability_contrastive(first, second, "log-dot", 0.01)[0].double()
    assert value.item() == pytest.approx(expected.item(), abs=2e-6)


# ---- symmetries and known values


@pytest.mark.parametrize("critic", CRITICS)
def test_swapping_views_and_shuffling_images_change_nothing(critic: str):
    first, second = probabilities(2, 6, 4, 1), probabilities(2, 6, 4, 2)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    clusters = torch.tensor([2, 0, 3, 1])
    value = probability_contrastive(first, second, critic, 0.01)
    for other in (
        probability_contrastive(second, first, critic, 0.01),
        probability_contrastive(first[:, order], second[:, order], critic, 0.01),
        probability_contrastive(first[..., clusters], second[..., clusters], critic, 0.01),
    ):
        torch.testing.assert_close(other, value)
    z, other_z = unit_vectors(6, 5, 1), unit_vectors(6, 5, 2)
    torch.testing.assert_close(feature_contrastive(other_z[order], z[order], 0.1), feature_contrastive(z, other_z, 0.1))


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize(("batch", "clusters"), [(2, 2), (8, 10), (64, 1000)])
def test_uniform_probabilities_give_log_of_the_candidates(critic: str, batch: int, clusters: int):
    q = torch.full((1, batch, clusters), 1 / clusters)
    assert probability_contrastive(q, q, critic, 0.01).item() == pytest.approx(math.log(2 * batch - 1), abs=1e-4)
    drawn = torch.full((1, 9, clusters), 1 / clusters)
    assert bank_probability_contrastive(q, q, drawn, critic, 0.01).item() == pytest.approx(math.log(10), abs=1e-4)


def test_identical_one_hot_rows_cannot_be_told_apart():
    q = torch.zeros(1, 4, 3)
    q[:, :, 1] = 1
    assert probability_contrastive(q, q, "log-dot", 0.0).item() == pytest.approx(math.log(7))


def test_two_perfect_clusters_of_two():
    # Rows of the own cluster have dot product 1: the other view, and both views of one other image.
    q = torch.eye(2).repeat_interleave(2, dim=0)[None]
    assert probability_contrastive(q, q, "log-dot", 0.0).item() == pytest.approx(math.log(3))
    # Smoothed by 0.1: 0.95² + 0.05² = 0.905 inside a cluster, 2 · 0.95 · 0.05 = 0.095 across.
    expected = math.log((3 * 0.905 + 4 * 0.095) / 0.905)
    assert probability_contrastive(q, q, "log-dot", 0.1).item() == pytest.approx(expected)


def test_orthogonal_and_identical_features():
    z = torch.eye(4)
    # Each row: the other view at similarity 1, the 6 others at 0, temperature 0.5.
    assert feature_contrastive(z, z, 0.5).item() == pytest.approx(math.log((math.e**2 + 6) / math.e**2))


# ---- gradients


def gradient(logits: Tensor, other_q: Tensor, smoothing: float) -> Tensor:
    """Of -log(q̃ᵀq), the positive part of the log-dot critic, with respect to the logits of q."""
    logits = logits.clone().requires_grad_()
    q = smooth(logits.softmax(dim=-1), smoothing)
    (-(smooth(other_q, smoothing) * q).sum(dim=-1).log()).sum().backward()
    return logits.grad


def test_the_gradient_of_the_log_dot_critic_has_its_closed_form():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, generator=generator, dtype=torch.float64)
    other = torch.randn(6, generator=generator, dtype=torch.float64).softmax(0)
    q = logits.softmax(0)
    closed = q - other * q / (other @ q)  # q_c - q̃_c q_c / q̃ᵀq
    torch.testing.assert_close(gradient(logits, other, 0.0), closed)


def test_smoothing_bounds_the_loss_of_two_views_sure_of_different_clusters():
    q, partner = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])

    def positive_part(smoothing: float) -> tuple[float, list[float]]:
        varied = q.clone().requires_grad_()
        loss = -(smooth(varied, smoothing) @ smooth(partner, smoothing)).log()
        loss.backward()
        return loss.item(), varied.grad.tolist()

    assert positive_part(0.0)[0] == math.inf
    high, low = 0.99 + 0.01 / 3, 0.01 / 3
    dot = 2 * high * low + low * low
    loss, pull = positive_part(0.01)
    assert loss == pytest.approx(-math.log(dot), rel=1e-5)
    # Towards the partner's cluster, and as much stronger as the partner is surer of it.
    assert pull == pytest.approx([-0.99 * low / dot, -0.99 * high / dot, -0.99 * low / dot], rel=1e-5)


@pytest.mark.parametrize("critic", CRITICS)
def test_gradients_are_right_and_finite_for_one_hot_inputs(critic: str):
    first = probabilities(2, 3, 4, 1).double().requires_grad_()
    second = probabilities(2, 3, 4, 2).double().requires_grad_()

    def loss(a: Tensor, b: Tensor) -> Tensor:
        return probability_contrastive(a, b, critic, 0.01)

    numeric = torch.zeros_like(first)
    for place in range(first.numel()):
        step = torch.zeros(first.numel(), dtype=torch.float64)
        step[place] = 1e-3
        change = loss(first + step.view_as(first), second) - loss(first - step.view_as(first), second)
        numeric.view(-1)[place] = change.sum().item() / 2e-3
    loss(first, second).sum().backward()
    torch.testing.assert_close(first.grad, numeric, rtol=2e-2, atol=2e-3)
    one_hot = torch.eye(4)[None, [0, 1, 2]].requires_grad_()
    probability_contrastive(one_hot, torch.eye(4)[None, [3, 1, 2]], critic, 0.01).sum().backward()
    assert torch.isfinite(one_hot.grad).all()


def test_at_step_0_the_bank_gives_the_c_head_no_gradient():
    logits = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    uniform = torch.full((2, 9, 4), 0.25)
    bank_probability_contrastive(logits.softmax(2), uniform[:, :5], uniform, "log-dot", 0.01).sum().backward()
    assert logits.grad.abs().max() < 1e-7


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_inputs_stay_finite(critic: str, dtype: torch.dtype):
    logits = (20 * torch.randn(2, 16, 10, generator=torch.Generator().manual_seed(0))).to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        q = logits.softmax(dim=2)
        value = probability_contrastive(q, q.roll(1, 1), critic, 0.01) - mean_entropy(q) + logit_penalty(logits)
    assert value.dtype == torch.float32
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(logits.grad).all()


# ---- the other terms


def test_entropy_is_of_the_mean():
    q = torch.eye(4)[None]  # every image is sure, the clusters are even
    assert mean_entropy(q).item() == pytest.approx(math.log(4))
    assert mean_entropy(q[:, :1]).item() == pytest.approx(0.0)


def test_logits_out_of_bounds_cost_the_square_of_the_excess():
    logits = torch.tensor([[[25.0, -25.0, 3.0], [27.0, -29.0, 0.0]]], requires_grad=True)
    penalty = logit_penalty(logits)
    assert penalty.item() == pytest.approx((0.5 * 0.01 * (2**2 + 4**2)) / 2)
    penalty.sum().backward()
    assert logits.grad[0, 1].tolist() == pytest.approx([0.01, -0.02, 0.0])


def test_cross_entropy_is_per_subhead():
    logits = torch.log(torch.tensor([[[0.5, 0.5], [0.25, 0.75]], [[0.1, 0.9], [0.9, 0.1]]]))
    losses = labelled_cross_entropy(logits, torch.tensor([0, 1]))
    assert losses.tolist() == pytest.approx(
        [-(math.log(0.5) + math.log(0.75)) / 2, -(math.log(0.1) + math.log(0.1)) / 2], rel=1e-5
    )


def test_the_sum_is_weighted_as_in_equations_11_and_12():
    weights = LossWeights(entropy=2.0, feature=10.0, labels=3.0)
    terms = combine(
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
    each = combine(own, probability=torch.ones(2), entropy=torch.tensor([0.5, 0.25]), penalty=torch.zeros(2))
    assert each.clustering.tolist() == pytest.approx([0.0, 1.0])
    without = combine(weights, probability=torch.ones(2), entropy=torch.zeros(2), penalty=torch.zeros(2))
    assert (without.total.item(), without.feature.item(), without.labels.tolist()) == (1.0, 0.0, [0.0, 0.0])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (torch.eye(4), torch.eye(4), 1.0),  # sure, even, agreeing
        (torch.full((4, 4), 0.25), torch.full((4, 4), 0.25), 0.0),  # no idea
        (torch.eye(4)[[0, 0, 0, 0]], torch.eye(4)[[0, 0, 0, 0]], 0.0),  # collapsed
        (torch.eye(4)[[0, 0, 1, 1]], torch.eye(4)[[0, 0, 1, 1]], 0.5),  # two of four clusters used
    ],
)
def test_cluster_information_by_hand(first: Tensor, second: Tensor, expected: float):
    joint = joint_probability(first[None], second[None])
    assert joint.sum().item() == pytest.approx(1.0)
    torch.testing.assert_close(joint, joint.transpose(1, 2))
    assert cluster_information(joint).item() == pytest.approx(expected, abs=1e-6)


def test_the_infonce_bound():
    bounds = infonce_bound(torch.tensor([math.log(511), 0.0]), 511)
    torch.testing.assert_close(bounds, torch.tensor([0.0, math.log(511)]), atol=1e-6, rtol=1e-6)
