"""Batch norms folded into convolutions: the output stays the same, and exceptions are not folded."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from crlc.data.augmentation import to_images
from crlc.model import Backbone, CrlcNetwork, build_backbone
from crlc.model.folding import fold_batch_norms

pytestmark = pytest.mark.slow

EXAMPLE = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
FRESH = torch.rand(5, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def randomize_norms(module: nn.Module) -> nn.Module:
    """Return the module in evaluation mode, with statistics and factors as after training."""
    generator = torch.Generator().manual_seed(2)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            for value in (part.running_mean, part.running_var, part.weight.data, part.bias.data):
                value.copy_(torch.rand(value.shape, generator=generator) + 0.3)
    return module.eval()


def count_norms(module: nn.Module) -> int:
    return sum(isinstance(part, nn.BatchNorm2d) for part in module.modules())


def test_folding_matches_weights_computed_by_hand():
    convolution, norm = nn.Conv2d(3, 1, 1), nn.BatchNorm2d(1, eps=0.0)
    with torch.no_grad():
        convolution.weight.copy_(torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1))
        convolution.bias.fill_(1.0)
        norm.running_mean.fill_(2.0)
        norm.running_var.fill_(4.0)
        norm.weight.fill_(6.0)
        norm.bias.fill_(5.0)
    folded = fold_batch_norms(nn.Sequential(convolution, norm).eval(), EXAMPLE)
    assert folded[0].weight.flatten().tolist() == [3.0, 6.0, 9.0]  # times 6 / sqrt(4)
    assert folded[0].bias.tolist() == [(1.0 - 2.0) * 3.0 + 5.0]


def test_folding_a_resnet_keeps_its_output():
    original = randomize_norms(build_backbone("resnet18", 16).module)
    folded = fold_batch_norms(original, EXAMPLE)
    assert count_norms(original) == 20
    assert count_norms(folded) == 0
    with torch.no_grad():
        torch.testing.assert_close(folded(FRESH), original(FRESH), rtol=1e-4, atol=1e-4)


def test_folding_the_default_backbone_keeps_its_output():
    original = build_backbone("default", 160).module.eval()
    folded = fold_batch_norms(original, EXAMPLE)
    assert count_norms(original) == 49
    assert count_norms(folded) == 0
    with torch.no_grad():
        torch.testing.assert_close(folded(FRESH), original(FRESH), rtol=1e-4, atol=1e-4)


class Shared(nn.Module):
    """One norm after two convolutions, which cannot be folded into both."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, images: Tensor) -> Tensor:
        return self.norm(self.second(self.norm(self.first(images)))).mean(dim=(2, 3))


class Tapped(nn.Module):
    """A convolution whose output is also used without the norm."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, images: Tensor) -> Tensor:
        output = self.convolution(images)
        return (self.norm(output) + output).mean(dim=(2, 3))


def test_folding_skips_shared_norms_and_shared_outputs():
    shared, tapped = randomize_norms(Shared()), randomize_norms(Tapped())
    assert count_norms(fold_batch_norms(shared, EXAMPLE)) == 1
    assert fold_batch_norms(tapped, EXAMPLE) is tapped
    for module in (shared, tapped):
        with torch.no_grad():
            torch.testing.assert_close(fold_batch_norms(module, EXAMPLE)(FRESH), module(FRESH))


def test_fast_backbone_matches_the_network_and_does_not_change_it():
    backbone = build_backbone("small", 16)
    network = CrlcNetwork(
        Backbone(randomize_norms(backbone.module), backbone.dimensions), clusters=2, subheads=1
    ).eval()
    pixels = torch.randint(256, (5, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with torch.inference_mode():
        found = network.build_fast_backbone(pixels[:2])(pixels)
        torch.testing.assert_close(found, network.compute_backbone_vectors(to_images(pixels)), rtol=1e-4, atol=1e-4)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
