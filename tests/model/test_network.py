"""Network: shapes of its outputs, the stem for small images, and learned states that do not fit."""

from __future__ import annotations

import pytest
import torch

from crlc.model import SCRATCH_BACKBONES, CrlcNetwork, build_backbone


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
def test_network_output_shapes(backbone: str, size: int, dimensions: int):
    network = CrlcNetwork(build_backbone(backbone, size), clusters=7, subheads=3).eval()
    with torch.no_grad():
        output = network(torch.rand(2, 3, size, size))
    assert output.h.shape == (2, dimensions)
    assert output.z.shape == (2, 128)
    assert output.logits.shape == (3, 2, 7)
    torch.testing.assert_close(output.z.norm(dim=1), torch.ones(2))
    torch.testing.assert_close(output.q.sum(dim=2), torch.ones(3, 2))


def test_resnet_stem_keeps_the_resolution_of_small_images():
    small, large = (SCRATCH_BACKBONES["resnet18"](size, "auto").module for size in (64, 65))
    assert (small.conv1.kernel_size, small.conv1.stride) == ((3, 3), (1, 1))
    assert isinstance(small.maxpool, torch.nn.Identity)
    assert (large.conv1.kernel_size, large.conv1.stride) == ((7, 7), (2, 2))


def test_resnet_pooled_stem_halves_the_resolution_of_stl10():
    pooled = build_backbone("resnet18", 96, stem="pooled").module
    assert (pooled.conv1.kernel_size, pooled.conv1.stride) == ((3, 3), (1, 1))
    with torch.no_grad():
        stem = pooled.maxpool(pooled.conv1(torch.rand(1, 3, 96, 96)))
    assert stem.shape == (1, 64, 49, 49)  # as in SCAN: 2x2 pooling with a margin of one pixel


def test_network_load_error_lists_each_weight_once():
    network = CrlcNetwork(build_backbone("small", 16), clusters=2, subheads=1)
    complete = network.state_dict()
    heads = {name: value for name, value in complete.items() if not name.startswith("backbone.")}
    network.load_learned_state(heads)  # a state without a backbone keeps the network's own
    first, second, *_ = heads
    with pytest.raises(RuntimeError) as error:
        network.load_learned_state({name: value for name, value in heads.items() if name not in (first, second)})
    assert str(error.value) == f"the weights do not fit the network: {first}, {second}"
    with pytest.raises(RuntimeError, match=r"network: unknown, .*, .* and [\d,]+ more$"):
        network.load_learned_state({"unknown": torch.zeros(1)})
    del complete[next(name for name in complete if name.startswith("backbone."))]
    with pytest.raises(RuntimeError, match="backbone"):
        network.load_learned_state(complete)
