"""The whole network on one screen: backbone, projection, RL-head, C-head."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crlc.model.backbones import Backbone
from crlc.model.folding import with_folded_norms
from crlc.model.heads import ClusteringHead, RepresentationHead
from crlc.model.projection import Projection

_VECTOR_DIMENSIONS = 2


class NetworkOutput(NamedTuple):
    """What the network says of a batch."""

    h: Tensor
    """Backbone vectors (projected, where the backbone is pretrained and frozen), (B, d)."""

    z: Tensor
    """Unit vectors of the RL-head, (B, 128)."""

    logits: Tensor
    """Of all subheads, (S, B, C)."""

    @property
    def q(self) -> Tensor:
        """Cluster probabilities, (S, B, C), at least in float32."""
        return at_least_float32(self.logits).softmax(dim=2)


class CrlcNetwork(nn.Module):
    """Images to backbone vectors, and from those to features and cluster logits."""

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        backbone: Backbone,
        clusters: int,
        subheads: int,
        *,
        projected: int | None = None,
        hidden: int | None = None,
    ) -> None:
        """Put the parts together; torch's own random numbers decide the heads' weights.

        Args:
            backbone: the first part.
            clusters: C.
            subheads: S.
            projected: length of the vectors that the heads get, where a fixed projection stands before them.
            hidden: width of the heads' hidden layers; by default that of their input.
        """
        super().__init__()
        self._frozen = False
        self.backbone = backbone.module
        self.projection: nn.Module = nn.Identity() if projected is None else Projection(backbone.dimensions, projected)
        dimensions = projected or backbone.dimensions
        self.rl_head = RepresentationHead(dimensions, hidden)
        self.c_head = ClusteringHead(dimensions, clusters, subheads, hidden)
        for name in ("mean", "std"):
            colours = torch.tensor(getattr(backbone, name)).view(1, 3, 1, 1)
            self.register_buffer(name, colours, persistent=False)
        if backbone.rl_head is not None and projected is None:
            self.rl_head.load_state_dict(backbone.rl_head)

    def freeze_backbone(self, *, frozen: bool) -> None:
        """Let the backbone stay as it is, batch norms included; or let it learn."""
        self._frozen = frozen
        self.backbone.requires_grad_(not frozen)
        self.train(self.training)

    def train(self, mode: bool = True) -> CrlcNetwork:
        """As torch has it; a frozen backbone always looks as it will when it is used."""
        super().train(mode)
        if self._frozen:
            self.backbone.eval()
        return self

    def learned_state(self) -> dict[str, Tensor]:
        """What training may have changed: everything but a frozen backbone."""
        state: dict[str, Tensor] = self.state_dict()
        return {name: value for name, value in state.items() if not (self._frozen and name.startswith("backbone."))}

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        """From a checkpoint; without a backbone in it, this network's own is the one that was used."""
        missing, unexpected = self.load_state_dict(state, strict=False)
        strangers = [name for name in missing if not name.startswith("backbone.")] + list(unexpected)
        if strangers or (missing and any(name.startswith("backbone.") for name in state)):
            raise RuntimeError(f"weights do not fit: {', '.join([*missing, *strangers][:3])}")

    def forward(self, inputs: Tensor) -> NetworkOutput:
        """Images from 0 to 1, (B, 3, H, W), or what backbone and projection gave of them before, (B, d)."""
        h = inputs if inputs.ndim == _VECTOR_DIMENSIONS else self.projection(self.backbone_vectors(inputs))
        return NetworkOutput(h, self.rl_head(h), self.c_head(h))

    def backbone_vectors(self, images: Tensor) -> Tensor:
        """Only the first part: images from 0 to 1, (B, 3, H, W), to (B, d)."""
        vectors: Tensor = self.backbone((images - self.mean) / self.std)
        return vectors

    def fast_backbone(self, example: Tensor) -> Callable[[Tensor], Tensor]:
        """The first part as it will stay, for many images: stored bytes, (B, H, W, 3), to (B, d).

        Args:
            example: a few stored images of the size to come.
        """
        scale, shift = 1 / (255 * self.std), -self.mean / self.std

        def normalised(pixels: Tensor) -> Tensor:
            return pixels.permute(0, 3, 1, 2).to(scale.dtype).mul_(scale).add_(shift)

        backbone = with_folded_norms(self.backbone, normalised(example))

        def vectors(pixels: Tensor) -> Tensor:
            found: Tensor = backbone(normalised(pixels))
            return found

        return vectors


def at_least_float32(values: Tensor) -> Tensor:
    """Half precision is widened; double stays."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
