"""Batch norms folded into convolutions: the same vectors, and nothing folded that would change them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crlc.data.augment import to_images
from crlc.model import Backbone, CrlcNetwork, make_backbone
from crlc.model.folding import with_folded_norms

EXAMPLE = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
FRESH = torch.rand(5, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def well_used(module: nn.Module) -> nn.Module:
    """With statistics and factors as after training, not 0 and 1."""
    generator = torch.Generator().manual_seed(2)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            for value in (part.running_mean, part.running_var, part.weight.data, part.bias.data):
                value.copy_(torch.rand(value.shape, generator=generator) + 0.3)
    return module.eval()


def norms(module: nn.Module) -> int:
    return sum(isinstance(part, nn.BatchNorm2d) for part in module.modules())


def test_a_hand_computed_fold():
    convolution, norm = nn.Conv2d(3, 1, 1), nn.BatchNorm2d(1, eps=0.0)
    with torch.no_grad():
        convolution.weight.copy_(torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1))
        convolution.bias.fill_(1.0)
        norm.running_mean.fill_(2.0)
        norm.running_var.fill_(4.0)
        norm.weight.fill_(6.0)
        norm.bias.fill_(5.0)
    folded = with_folded_norms(nn.Sequential(convolution, norm).eval(), EXAMPLE)
    assert folded[0].weight.flatten().tolist() == [3.0, 6.0, 9.0]  # times 6 / sqrt(4)
    assert folded[0].bias.tolist() == [(1.0 - 2.0) * 3.0 + 5.0]


def test_a_resnet_gives_the_same_without_any_norm():
    plain = well_used(make_backbone("resnet18", 16).module)
    folded = with_folded_norms(plain, EXAMPLE)
    assert norms(plain) == 20
    assert norms(folded) == 0
    with torch.no_grad():
        torch.testing.assert_close(folded(FRESH), plain(FRESH), rtol=1e-4, atol=1e-4)


def test_the_default_backbone_with_timms_norms_gives_the_same():
    plain = make_backbone("default", 160).module.eval()
    folded = with_folded_norms(plain, EXAMPLE)
    assert norms(plain) == 49
    assert norms(folded) == 0
    with torch.no_grad():
        torch.testing.assert_close(folded(FRESH), plain(FRESH), rtol=1e-4, atol=1e-4)


class Shared(nn.Module):
    """One norm for two convolutions: it cannot be a part of both."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, images: Tensor) -> Tensor:
        return self.norm(self.second(self.norm(self.first(images)))).mean(dim=(2, 3))


class Tapped(nn.Module):
    """The output of the convolution is wanted without the norm, too."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, images: Tensor) -> Tensor:
        seen = self.convolution(images)
        return (self.norm(seen) + seen).mean(dim=(2, 3))


def test_what_cannot_be_folded_stays_as_it_is():
    shared, tapped = well_used(Shared()), well_used(Tapped())
    assert norms(with_folded_norms(shared, EXAMPLE)) == 1
    assert with_folded_norms(tapped, EXAMPLE) is tapped
    for module in (shared, tapped):
        with torch.no_grad():
            torch.testing.assert_close(with_folded_norms(module, EXAMPLE)(FRESH), module(FRESH))


def test_the_network_itself_is_not_changed_and_bytes_give_the_same_vectors():
    backbone = make_backbone("small", 16)
    network = CrlcNetwork(Backbone(well_used(backbone.module), backbone.dimensions), clusters=2, subheads=1).eval()
    pixels = torch.randint(256, (5, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with torch.inference_mode():
        found = network.fast_backbone(pixels[:2])(pixels)
        torch.testing.assert_close(found, network.backbone_vectors(to_images(pixels)), rtol=1e-4, atol=1e-4)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
