"""Runs shortened to a time budget."""

from __future__ import annotations

import pytest

from crlc.training.settings import TrainSettings
from crlc.training.time_budget import fit_epochs
from crlc.training.time_estimate import TimeRange


def estimate(settings: TrainSettings) -> TimeRange:
    """Two to four seconds per epoch, and ten for what does not depend on the epochs."""
    epochs = settings.stages.total_epochs
    return TimeRange(10 + 2 * epochs, 10 + 4 * epochs)


@pytest.mark.parametrize(
    ("epochs", "budget", "expected"),
    [
        (20, 200, 20),  # 90 s fit
        (60, 200, 40),  # 170 s are planned: 40 epochs take 170 s
        (60, 100, 15),  # 85 s are planned: 18 epochs would fit, 15 is the next multiple of five
        (60, 40, 6),  # 34 s are planned: 6 epochs take 34 s
        (60, 1, 1),  # never less than an epoch
    ],
)
def test_fit_epochs_shortens_a_run_that_takes_too_long(epochs: int, budget: float, expected: int):
    fitted = fit_epochs(TrainSettings().replace(epochs=epochs), budget, estimate)
    assert fitted == TrainSettings().replace(epochs=expected)


def test_fit_epochs_shortens_all_stages_by_the_same_factor():
    settings = TrainSettings().replace(
        method="two-stage", pairs="neighbours", pretrain_epochs=200, epochs=100, finetune_epochs=0
    )
    stages = fit_epochs(settings, 200, estimate).stages
    assert (stages.pretrain_epochs, stages.epochs, stages.finetune_epochs) == (25, 10, 0)
