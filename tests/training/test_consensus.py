"""Consensus of subheads: the mean of aligned probabilities by hand, and what the selected subhead learns."""

from __future__ import annotations

import numpy as np
import torch

from crlc.model.heads import ClusteringHead
from crlc.training.consensus import average_aligned, distil_consensus
from crlc.training.inputs import FeatureInputs


def make_inputs() -> FeatureInputs:
    """Return three groups of 60 vectors, at three corners of a square."""
    generator = np.random.default_rng(0)
    centres = np.repeat(np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]]), 60, axis=0)
    vectors = (centres + 0.2 * generator.normal(size=centres.shape)).astype(np.float32)
    return FeatureInputs(vectors, 0.0, torch.device("cpu"))


def make_head(weights: list[list[list[float]]]) -> ClusteringHead:
    """Return a head whose subheads multiply the vectors by matrices (2, C); the hidden layer computes max(±x, 0)."""
    head = ClusteringHead(2, len(weights[0][0]), len(weights), hidden=4)
    with torch.no_grad():
        head.first_weight[:] = torch.cat([torch.eye(2), -torch.eye(2)], dim=1)
        head.second_weight[:] = torch.cat([torch.tensor(weights), -torch.tensor(weights)], dim=1)
    return head


def test_mean_of_aligned_probabilities_by_hand():
    logits = torch.log(torch.tensor([[[0.7, 0.2, 0.1]], [[0.3, 0.1, 0.6]]]))
    orders = torch.tensor([[0, 1, 2], [2, 0, 1]])  # cluster 2 of the second subhead is cluster 0 of the first
    torch.testing.assert_close(average_aligned(logits, orders), torch.tensor([[0.65, 0.25, 0.1]]))


def test_selected_subhead_learns_the_mean_and_the_others_stay():
    # Three subheads see all three groups, in different orders; the last one is not a member.
    right = [[4.0, -4.0, -4.0], [4.0, 4.0, -4.0]]
    permuted = [[-4.0, 4.0, -4.0], [-4.0, 4.0, 4.0]]
    head = make_head([right, permuted, right, [[9.0, 0.0, 0.0], [0.0, 9.0, 0.0]]])
    with torch.no_grad():
        head.second_weight[0] *= 0.01  # the selected subhead is right, but hardly confident
    before = {name: value.detach().clone() for name, value in head.named_parameters()}
    inputs = make_inputs()
    rows = inputs.read(np.arange(len(inputs)))
    confidence, clusters = head(rows).softmax(dim=2).max(dim=2)
    distil_consensus(head, inputs, np.arange(len(inputs)), selected=0, members=3, seed=0)
    after = head(rows).softmax(dim=2).detach()
    assert torch.equal(after[0].argmax(dim=1), clusters[0])
    assert after[0].max(dim=1).values.mean() > confidence[0].mean() + 0.15  # the others are confident
    for name, value in head.named_parameters():
        assert torch.equal(value[1:], before[name][1:])
        assert not torch.equal(value[0], before[name][0]) or name == "first_bias"


def test_distillation_is_reproducible():
    heads = [make_head([[[1.0, -1.0], [0.5, 0.2]], [[0.1, 1.0], [1.0, 0.0]]]) for _ in range(2)]
    for head in heads:
        distil_consensus(head, make_inputs(), np.arange(len(make_inputs())), selected=1, members=2, seed=3)
    assert torch.equal(heads[0].second_weight, heads[1].second_weight)
