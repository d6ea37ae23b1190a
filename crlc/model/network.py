"""The network: backbone, projection, RL-head and C-head."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crlc.model.backbones import Backbone
from crlc.model.folding import fold_batch_norms
from crlc.model.heads import ClusteringHead, RepresentationHead
from crlc.model.projection import Projection

_VECTOR_AXES = 2
_MAX_LISTED_WEIGHTS = 3


class NetworkOutput(NamedTuple):
    """Outputs of the network for a batch."""

    h: Tensor
    """Backbone vectors, projected if the network has a projection, (B, d)."""

    z: Tensor
    """Unit vectors of the RL-head, (B, 128)."""

    logits: Tensor
    """Logits of all subheads, (S, B, C)."""

    @property
    def q(self) -> Tensor:
        """Cluster probabilities, (S, B, C), at least in float32."""
        return widen_to_float32(self.logits).softmax(dim=2)


class CrlcNetwork(nn.Module):
    """Network that maps images to backbone vectors, and backbone vectors to features and cluster logits."""

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
        """Create the heads, initialised with torch's global generator, and connect the parts.

        Args:
            backbone: maps images to vectors.
            clusters: number of clusters C.
            subheads: number of subheads S.
            projected: length of the projected vectors; `None` for no projection before the heads.
            hidden: width of the hidden layers of the heads; by default that of their input.
        """
        super().__init__()
        self._frozen = False
        self.backbone = backbone.module
        self.classifier = backbone.classifier
        """Classifier of the pretrained backbone; valid as long as the backbone is frozen."""
        self.projection: nn.Module = nn.Identity() if projected is None else Projection(backbone.dimensions, projected)
        dimensions = projected or backbone.dimensions
        self.rl_head = RepresentationHead(dimensions, hidden)
        self.c_head = ClusteringHead(dimensions, clusters, subheads, hidden)
        for name in ("mean", "std"):
            per_channel = torch.tensor(getattr(backbone, name)).view(1, 3, 1, 1)
            self.register_buffer(name, per_channel, persistent=False)
        if backbone.rl_head is not None and projected is None:
            self.rl_head.load_state_dict(backbone.rl_head)

    def set_backbone_frozen(self, *, frozen: bool) -> None:
        """Freeze the backbone, including its batch norms, or unfreeze it."""
        self._frozen = frozen
        self.backbone.requires_grad_(not frozen)
        self.train(self.training)

    @property
    def is_backbone_frozen(self) -> bool:
        """Whether only the heads are trained."""
        return self._frozen

    def train(self, mode: bool = True) -> CrlcNetwork:
        """Set the training mode, as `nn.Module.train`; a frozen backbone stays in evaluation mode."""
        super().train(mode)
        if self._frozen:
            self.backbone.eval()
        return self

    def export_learned_state(self) -> dict[str, Tensor]:
        """Return all weights and buffers that training may have changed: everything except a frozen backbone."""
        state: dict[str, Tensor] = self.state_dict()
        return {name: value for name, value in state.items() if not (self._frozen and name.startswith("backbone."))}

    def load_learned_state(self, state: dict[str, Tensor]) -> None:
        """Load a state from `export_learned_state`; if it has no backbone, keep this network's own.

        Raises:
            RuntimeError: the state does not fit the network.
        """
        missing, unexpected = self.load_state_dict(state, strict=False)
        if not any(name.startswith("backbone.") for name in state):
            missing = [name for name in missing if not name.startswith("backbone.")]
        misfits = [*unexpected, *missing]
        if misfits:
            more = len(misfits) - _MAX_LISTED_WEIGHTS
            listed = ", ".join(misfits[:_MAX_LISTED_WEIGHTS]) + (f" and {more:,} more" if more > 0 else "")
            raise RuntimeError(f"the weights do not fit the network: {listed}")

    def forward(self, inputs: Tensor) -> NetworkOutput:
        """Compute the outputs for images with values from 0 to 1, (B, 3, H, W), or for projected vectors, (B, d)."""
        h = inputs if inputs.ndim == _VECTOR_AXES else self.projection(self.compute_backbone_vectors(inputs))
        return NetworkOutput(h, self.rl_head(h), self.c_head(h))

    def compute_backbone_vectors(self, images: Tensor) -> Tensor:
        """Map images with values from 0 to 1, (B, 3, H, W), to backbone vectors, (B, d)."""
        vectors: Tensor = self.backbone((images - self.mean) / self.std)
        return vectors

    def build_fast_backbone(self, example: Tensor) -> Callable[[Tensor], Tensor]:
        """Return a fast function that maps stored uint8 images, (B, H, W, 3), to backbone vectors, (B, d).

        Later changes of the weights do not affect it.

        Args:
            example: a few stored images of the final size.
        """
        scale, shift = 1 / (255 * self.std), -self.mean / self.std

        def normalize(pixels: Tensor) -> Tensor:
            return pixels.permute(0, 3, 1, 2).to(scale.dtype).mul_(scale).add_(shift)

        backbone = fold_batch_norms(self.backbone, normalize(example))

        def compute_vectors(pixels: Tensor) -> Tensor:
            found: Tensor = backbone(normalize(pixels))
            return found

        return compute_vectors


def widen_to_float32(values: Tensor) -> Tensor:
    """Convert half precision to float32; keep float32 and float64."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
