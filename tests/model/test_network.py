"""The network: shapes, initialisation, the batched C-head against separate layers; and the memory bank."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from crlc.memory_bank import MemoryBank
from crlc.model import SCRATCH_BACKBONES, CrlcNetwork, make_backbone
from crlc.model.heads import ClusteringHead, RepresentationHead


@pytest.mark.parametrize(
    ("backbone", "size", "dimensions"),
    [
        ("small", 16, 64),
        ("small", 96, 64),
        ("resnet18", 32, 512),
        ("resnet34", 32, 512),
        ("resnet50", 32, 2048),
        ("resnet18", 96, 512),
    ],
)
def test_shapes(backbone: str, size: int, dimensions: int):
    network = CrlcNetwork(make_backbone(backbone, size), clusters=7, subheads=3).eval()
    with torch.no_grad():
        output = network(torch.rand(2, 3, size, size))
    assert output.h.shape == (2, dimensions)
    assert output.z.shape == (2, 128)
    assert output.logits.shape == (3, 2, 7)
    torch.testing.assert_close(output.z.norm(dim=1), torch.ones(2))
    torch.testing.assert_close(output.q.sum(dim=2), torch.ones(3, 2))


def test_small_images_keep_their_resolution_in_the_stem():
    small, large = SCRATCH_BACKBONES["resnet18"](64).module, SCRATCH_BACKBONES["resnet18"](65).module
    assert (small.conv1.kernel_size, small.conv1.stride) == ((3, 3), (1, 1))
    assert isinstance(small.maxpool, torch.nn.Identity)
    assert (large.conv1.kernel_size, large.conv1.stride) == ((7, 7), (2, 2))


def test_the_batched_subheads_are_separate_two_layer_nets():
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


def test_every_layer_of_the_heads_starts_kaiming_uniform_with_zero_bias():
    torch.manual_seed(0)
    c_head, rl_head = ClusteringHead(200, 50, 2), RepresentationHead(200)
    bound = (6 / 200) ** 0.5
    for weight in (c_head.first_weight, c_head.second_weight, rl_head.first.weight, rl_head.second.weight):
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)
    for bias in (c_head.first_bias, c_head.second_bias, rl_head.first.bias, rl_head.second.bias):
        assert not bias.any()


def test_the_bank_starts_uniform_and_moves_by_equation_10():
    bank = MemoryBank(10, clusters=4, subheads=2, momentum=0.75, generator=torch.Generator().manual_seed(0))
    assert (bank.probabilities == 0.25).all()
    torch.testing.assert_close(bank.features.norm(dim=1), torch.ones(10))
    before = bank.features.clone()
    positions = torch.tensor([3, 7])
    q = torch.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 0]], [[0, 0, 1, 0], [0, 0, 0, 1]]])
    z = functional.normalize(torch.randn(2, 128, generator=torch.Generator().manual_seed(1)), dim=1)
    bank.update(positions, q, z)
    assert bank.probabilities[0, 3].tolist() == [0.4375, 0.1875, 0.1875, 0.1875]
    torch.testing.assert_close(
        bank.features[positions], functional.normalize(0.75 * before[positions] + 0.25 * z, dim=1)
    )
    untouched = [0, 1, 2, 4, 5, 6, 8, 9]
    assert (bank.features[untouched] == before[untouched]).all()
    assert set(bank.state_dict()) == {"probabilities", "features"}
