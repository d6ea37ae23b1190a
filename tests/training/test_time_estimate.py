"""Estimated durations of runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from crlc.training.images import TrainingImages
from crlc.training.settings import TrainSettings
from crlc.training.time_estimate import RunTimer, TimeRange, make_step_key

IMAGES = TrainingImages.from_array(np.random.default_rng(0).integers(0, 256, (64, 8, 8, 3), dtype=np.uint8))
SETTINGS = TrainSettings().replace(image_size=8, batch_size=32, clusters=2, subheads=1, epochs=10, evaluations=1)
CPU = torch.device("cpu")


def test_time_ranges_add_up():
    total = TimeRange(1, 4) + TimeRange(2, 5).scale(2)
    assert total == TimeRange(5, 14)
    assert TimeRange(1, 4).expected == pytest.approx(2)


def test_run_timer_times_steps_once_so_that_longer_runs_take_longer():
    timer = RunTimer(CPU)
    short, long = (timer.estimate(IMAGES, SETTINGS.replace(epochs=epochs)).total for epochs in (10, 100))
    assert 0 < short.low <= short.high
    # 2 steps per epoch; an intermediate and a final evaluation cost 0.2 of an epoch each.
    assert long.high / short.high == pytest.approx(100.4 / 10.4)
    assert long.low / short.low == pytest.approx(100.4 / 10.4)


@pytest.mark.parametrize("implementation", ["simclr", "memory-bank"])
def test_run_timer_times_steps_with_a_whole_batch(implementation: str):
    lengths: list[int] = []

    def read(ids: NDArray[np.int64]) -> NDArray[np.uint8]:
        lengths.append(len(ids))
        return IMAGES.read(ids)

    settings = SETTINGS.replace(implementation=implementation, augment="photo")
    RunTimer(CPU).estimate(replace(IMAGES, read=read), settings)
    assert set(lengths) == {32}


def test_run_timer_narrows_the_range_by_an_earlier_run():
    timed = RunTimer(CPU)
    alone = timed.estimate(IMAGES, SETTINGS).total
    per_step = alone.high / 20
    past = {make_step_key(SETTINGS, "cpu"): per_step}
    both = RunTimer(CPU, past, timed._timed).estimate(IMAGES, SETTINGS).total
    assert both.high == pytest.approx(alone.high)
    assert both.low == pytest.approx((alone.low * alone.high) ** 0.5)
    far_beyond = {make_step_key(SETTINGS, "cpu"): 1000 * per_step}  # e.g. on another computer
    assert RunTimer(CPU, far_beyond, timed._timed).estimate(IMAGES, SETTINGS).total.high == pytest.approx(alone.high)


def test_make_step_key_ignores_what_does_not_change_a_step():
    key = make_step_key(SETTINGS, "cpu")
    assert make_step_key(SETTINGS.replace(epochs=3, seed=7, learning_rate=0.5), "cpu") == key
    assert make_step_key(SETTINGS.replace(image_size=16), "cpu") != key
    assert make_step_key(SETTINGS, "cuda") != key
