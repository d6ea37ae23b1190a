"""Time budgets of the presets: how long `quick`, `balanced` and `best` train at most, and runs shortened to fit."""

from __future__ import annotations

from collections.abc import Callable

from crlc.training.settings import TrainSettings
from crlc.training.time_estimate import TimeRange

PRESET_SECONDS = {"quick": 120.0, "balanced": 600.0, "best": 3600.0}
"""Maximum duration of training, without the features of a frozen backbone, which are computed once per dataset."""

_SAFETY_FACTOR = 0.85
"""Part of the budget that is planned: a few timed steps predict the duration within about 15 %."""

_COARSE_EPOCHS = 5
_STAGE_LENGTHS = ("epochs", "pretrain_epochs", "finetune_epochs")


def fit_epochs(
    settings: TrainSettings, budget_seconds: float, estimate: Callable[[TrainSettings], TimeRange]
) -> TrainSettings:
    """Return the settings with as many epochs as fit into the budget beside the programs that run now.

    Args:
        settings: settings of a run; every stage is shortened by the same factor, to one epoch at least.
        budget_seconds: maximum duration of training.
        estimate: returns the duration of training with given settings.
    """
    planned = _SAFETY_FACTOR * budget_seconds
    while (seconds := estimate(settings).high) > planned:
        shorter = _scale_epochs(settings, planned / seconds)
        if shorter == settings:
            return settings
        settings = shorter
    return settings


def _scale_epochs(settings: TrainSettings, factor: float) -> TrainSettings:
    values = settings.as_dict()
    return settings.replace(**{name: _shorten(values[name], factor) for name in _STAGE_LENGTHS if values[name]})


def _shorten(epochs: int, factor: float) -> int:
    """Return fewer epochs, where possible a multiple of five: a noisy computer then often plans the same number."""
    fewer = int(epochs * factor)
    if fewer > 2 * _COARSE_EPOCHS:
        fewer -= fewer % _COARSE_EPOCHS
    return max(1, fewer)
