"""The optimizer of a stage, and its learning rate as a pure function of the step."""

from __future__ import annotations

import math

import torch
from torch import nn

from crlc.training.settings import OptimizationSettings, TrainSettings

_COOLDOWN_FRACTION = 0.2


def make_optimizer(network: nn.Module, settings: OptimizationSettings) -> torch.optim.Optimizer:
    """Return SGD, Adam or AdamW with weight decay on weights only, not on biases and norms (authors' code).

    Adam adds the weight decay to the gradient (L2 regularisation), AdamW subtracts it from the weights.
    """
    weights = [p for name, p in network.named_parameters() if p.ndim > 1 and not name.endswith("bias")]
    others = [p for name, p in network.named_parameters() if p.ndim <= 1 or name.endswith("bias")]
    groups = [{"params": weights, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=settings.momentum)
    if settings.optimizer == "adam":
        return torch.optim.Adam(groups, lr=settings.learning_rate)
    return torch.optim.AdamW(groups, lr=settings.learning_rate)


def compute_learning_rate(settings: TrainSettings, step: int, steps_per_epoch: int) -> float:
    """Return the learning rate of a step.

    The rate rises linearly during the warm-up and peaks at the first step after it. Then it stays constant, follows
    half a cosine, or stays constant until the last fifth and falls linearly to 0. It would reach its final value one
    step after the last. The cosine of A.13 changes with the epoch, not with the step (`cosine-by-epoch`).

    Args:
        settings: settings of the stage.
        step: index of the step in the stage, from 0.
        steps_per_epoch: number of steps in an epoch.
    """
    own = settings.optimization
    warmup = round(own.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return own.learning_rate * (step + 1) / (warmup + 1)
    if own.schedule == "constant":
        return own.learning_rate
    total = settings.stages.epochs * steps_per_epoch
    if own.schedule == "cosine-by-epoch":
        step = max(warmup, step // steps_per_epoch * steps_per_epoch)
    progress = (step - warmup) / max(1, total - warmup)
    if own.schedule == "cooldown":
        return own.learning_rate * min(1.0, (1 - progress) / _COOLDOWN_FRACTION)
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return own.learning_rate * (own.final_rate_fraction + (1 - own.final_rate_fraction) * cosine)
