"""The two heads. In the paper, "both are two-layer neural networks with ReLU activations".

The layer widths and the initialisation are those of the authors' code.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class RepresentationHead(nn.Module):
    """The RL-head: Linear(d, d), ReLU, Linear(d, 128) (authors' code); outputs are normalised to unit length."""

    def __init__(self, dimensions: int, hidden: int | None = None, out: int = 128) -> None:
        """Create the two layers.

        Args:
            dimensions: d, the length of the input.
            hidden: width of the hidden layer; by default d.
            out: length of the output.
        """
        super().__init__()
        width = hidden or dimensions
        self.first = nn.Linear(dimensions, width)
        self.second = nn.Linear(width, out)
        for layer in (self.first, self.second):
            initialize_weights(layer.weight, layer.in_features)
            nn.init.zeros_(layer.bias)

    def forward(self, h: Tensor) -> Tensor:
        """Map (B, d) to unit vectors (B, out)."""
        features = self.second(functional.relu(self.first(h)))
        return functional.normalize(features if features.dtype == torch.float64 else features.float(), dim=1)


class ClusteringHead(nn.Module):
    """The C-head: several two-layer subheads (10 in the paper), computed as one batched matrix product.

    Each subhead is Linear(d, d), ReLU, Linear(d, C), with biases and without batch norm (authors' code).
    """

    def __init__(self, dimensions: int, clusters: int, subheads: int = 10, hidden: int | None = None) -> None:
        """Create the stacked layers of all subheads.

        Args:
            dimensions: d, the length of the input.
            clusters: number of clusters C.
            subheads: number of subheads S.
            hidden: width of the hidden layers; by default d.
        """
        super().__init__()
        width = hidden or dimensions
        self.first_weight = nn.Parameter(torch.empty(subheads, dimensions, width))
        self.first_bias = nn.Parameter(torch.zeros(subheads, 1, width))
        self.second_weight = nn.Parameter(torch.empty(subheads, width, clusters))
        self.second_bias = nn.Parameter(torch.zeros(subheads, 1, clusters))
        initialize_weights(self.first_weight, dimensions)
        initialize_weights(self.second_weight, width)

    def forward(self, h: Tensor) -> Tensor:
        """Map (B, d) to logits (S, B, C)."""
        rows = h.expand(self.first_weight.shape[0], *h.shape)  # (S, B, d)
        hidden = functional.relu(torch.baddbmm(self.first_bias, rows, self.first_weight))
        return torch.baddbmm(self.second_bias, hidden, self.second_weight)


def initialize_weights(weight: Tensor, inputs: int) -> None:
    """Initialise weights Kaiming-uniform with ReLU gain, the last layer included (authors' code).

    With PyTorch's default, the C-head takes several times longer to leave the saddle point of uniform probabilities.

    Args:
        weight: modified in place.
        inputs: number of inputs of the layer (fan-in).
    """
    bound = (6 / inputs) ** 0.5
    nn.init.uniform_(weight, -bound, bound)
