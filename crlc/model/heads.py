"""The two heads: "both are two-layer neural networks with ReLU activations", says the paper."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class RepresentationHead(nn.Module):
    """The RL-head: Linear(d, d), ReLU, Linear(d, 128), scaled to unit length."""

    def __init__(self, dimensions: int, hidden: int | None = None, out: int = 128) -> None:
        """Make the two layers; the first is as wide as its input unless `hidden` says otherwise."""
        super().__init__()
        width = hidden or dimensions
        self.first = nn.Linear(dimensions, width)
        self.second = nn.Linear(width, out)
        for layer in (self.first, self.second):
            initialise(layer.weight, layer.in_features)
            nn.init.zeros_(layer.bias)

    def forward(self, h: Tensor) -> Tensor:
        """(B, d) to unit vectors (B, out)."""
        features = self.second(functional.relu(self.first(h)))
        return functional.normalize(features if features.dtype == torch.float64 else features.float(), dim=1)


class ClusteringHead(nn.Module):
    """The C-head: several two-layer subheads, all of them as one batched product."""

    def __init__(self, dimensions: int, clusters: int, subheads: int = 10, hidden: int | None = None) -> None:
        """Make the stacked layers of all subheads."""
        super().__init__()
        width = hidden or dimensions
        self.first_weight = nn.Parameter(torch.empty(subheads, dimensions, width))
        self.first_bias = nn.Parameter(torch.zeros(subheads, 1, width))
        self.second_weight = nn.Parameter(torch.empty(subheads, width, clusters))
        self.second_bias = nn.Parameter(torch.zeros(subheads, 1, clusters))
        initialise(self.first_weight, dimensions)
        initialise(self.second_weight, width)

    def forward(self, h: Tensor) -> Tensor:
        """(B, d) to logits (S, B, C)."""
        rows = h.expand(self.first_weight.shape[0], *h.shape)  # (S, B, d)
        hidden = functional.relu(torch.baddbmm(self.first_bias, rows, self.first_weight))
        return torch.baddbmm(self.second_bias, hidden, self.second_weight)


def initialise(weight: Tensor, inputs: int) -> None:
    """Kaiming-uniform with ReLU gain, the last layer included.

    With PyTorch's default the C-head stays near uniform probabilities, a saddle point, several times as long.
    """
    bound = (6 / inputs) ** 0.5
    nn.init.uniform_(weight, -bound, bound)
