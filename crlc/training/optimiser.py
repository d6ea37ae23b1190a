"""The optimiser of a run."""

from __future__ import annotations

import torch
from torch import nn

from crlc.training.settings import TrainSettings


def make_optimiser(network: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """SGD or AdamW; weight decay on weights only, not on biases and norms."""
    weights = [p for name, p in network.named_parameters() if p.ndim > 1 and not name.endswith("bias")]
    others = [p for name, p in network.named_parameters() if p.ndim <= 1 or name.endswith("bias")]
    groups = [{"params": weights, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    if settings.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=settings.momentum)
    return torch.optim.AdamW(groups, lr=settings.learning_rate)
