"""Mixed precision: the gradient scaler of checkpoints from other devices."""

from __future__ import annotations

import torch

from crlc.training.mixed_precision import MixedPrecision


def make_scaling_precision() -> MixedPrecision:
    """Return the precision of a GPU without bfloat16; torch allows a scaler on the CPU, too."""
    precision = MixedPrecision(torch.device("cpu"))
    precision.scaler = torch.amp.GradScaler("cpu", enabled=True)
    return precision


def test_scaler_continues_after_a_run_on_a_device_without_one():
    plain, scaling = MixedPrecision(torch.device("cpu")), make_scaling_precision()
    scaling.load_scaler_state(plain.scaler.state_dict())
    assert scaling.scaler.get_scale() == make_scaling_precision().scaler.get_scale()
    plain.load_scaler_state(scaling.scaler.state_dict())
    assert plain.scaler.state_dict() == {}


def test_scaler_continues_with_the_scale_of_the_checkpoint():
    before, after = make_scaling_precision(), make_scaling_precision()
    before.scaler.scale(torch.ones(1))  # the scale exists from the first step on
    before.scaler.update(512.0)
    after.load_scaler_state(before.scaler.state_dict())
    assert after.scaler.get_scale() == 512.0
