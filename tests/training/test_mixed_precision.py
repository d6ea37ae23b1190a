"""Mixed precision: when it is on, and the gradient scaler of checkpoints from other devices."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from crlc.training import trainer as trainer_module
from crlc.training.mixed_precision import MixedPrecision
from tests.fixtures.training_runs import TINY, create_trainer

GPU = torch.device("cuda")


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


@pytest.mark.parametrize("has_bfloat16", [True, False])
def test_precision_of_a_gpu_is_mixed_only_if_enabled(monkeypatch: pytest.MonkeyPatch, *, has_bfloat16: bool):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_bfloat16)
    mixed, full = MixedPrecision(GPU), MixedPrecision(GPU, enabled=False)
    assert (mixed.autocast._enabled, mixed.scaler.is_enabled()) == (True, not has_bfloat16)
    assert (full.autocast._enabled, full.scaler.is_enabled()) == (False, False)


@pytest.mark.parametrize("enabled", [True, False])
def test_trainer_uses_mixed_precision_by_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, enabled: bool):
    built = []

    def build(device: torch.device, *, enabled: bool = True) -> MixedPrecision:
        built.append(enabled)
        return MixedPrecision(device, enabled=enabled)

    monkeypatch.setattr(trainer_module, "MixedPrecision", build)
    create_trainer(tmp_path, TINY.replace(mixed_precision=enabled))
    assert built == [enabled]
