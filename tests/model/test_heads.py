"""Heads: the batched C-head against separate layers, and the initialisation."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from crlc.model.heads import ClusteringHead, RepresentationHead


def test_clustering_head_equals_separate_two_layer_networks():
    torch.manual_seed(0)
    head = ClusteringHead(5, clusters=3, subheads=4)
    torch.nn.init.normal_(head.first_bias)
    torch.nn.init.normal_(head.second_bias)
    h = torch.randn(6, 5)
    logits = head(h)
    for s in range(4):
        hidden = functional.relu(functional.linear(h, head.first_weight[s].T, head.first_bias[s, 0]))
        expected = functional.linear(hidden, head.second_weight[s].T, head.second_bias[s, 0])
        torch.testing.assert_close(logits[s], expected)


def test_heads_are_initialised_kaiming_uniform_with_zero_bias():
    torch.manual_seed(0)
    c_head, rl_head = ClusteringHead(200, 50, 2), RepresentationHead(200)
    bound = (6 / 200) ** 0.5
    for weight in (c_head.first_weight, c_head.second_weight, rl_head.first.weight, rl_head.second.weight):
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
    for bias in (c_head.first_bias, c_head.second_bias, rl_head.first.bias, rl_head.second.bias):
        assert not bias.any()
