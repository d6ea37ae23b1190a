"""The learning rate as a pure function of the step."""

from __future__ import annotations

import math

from crlc.training.settings import TrainSettings

_COOLDOWN_SHARE = 0.2


def learning_rate(settings: TrainSettings, step: int, steps_per_epoch: int) -> float:
    """The learning rate of step `step`, counted from 0.

    It rises linearly over the warm-up and reaches its highest at the first step after it; then it stays, or
    falls along half a cosine, or stays until the last fifth and falls linearly. The end is one step after the last.
    """
    warmup = round(settings.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return settings.learning_rate * (step + 1) / (warmup + 1)
    if settings.schedule == "constant":
        return settings.learning_rate
    total = settings.epochs * steps_per_epoch
    share = (step - warmup) / max(1, total - warmup)
    if settings.schedule == "cooldown":
        return settings.learning_rate * min(1.0, (1 - share) / _COOLDOWN_SHARE)
    falling = 0.5 * (1 + math.cos(math.pi * share))
    return settings.learning_rate * (settings.last_share + (1 - settings.last_share) * falling)
