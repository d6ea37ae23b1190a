"""Choice of the device, and its memory."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from crlc.errors import UsageError
from crlc.training.device import DEVICES, choose_device, measure_peak_memory_mb, read_peak_kilobytes


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_choose_device_auto_prefers_a_gpu(monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, expected: str):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert choose_device("auto").type == expected
    for name in DEVICES:
        if name in ("auto", "cpu") or (name == "cuda" and cuda) or (name == "mps" and mps):
            choose_device(name)
        else:
            with pytest.raises(UsageError, match=f"device='{name}'"):
                choose_device(name)


def test_choose_device_refuses_unknown_names():
    with pytest.raises(UsageError, match="device='gpu'.*cpu"):
        choose_device("gpu")


def test_measure_peak_memory_returns_megabytes():
    assert 10 < measure_peak_memory_mb(torch.device("cpu")) < 1e6


def test_read_peak_kilobytes_of_a_sandbox_without_it_is_none():
    assert read_peak_kilobytes("VmSize:\t 20 kB\nVmHWM:\t 7 kB\nVmRSS:\t 5 kB\n") == 7
    assert read_peak_kilobytes("VmSize:\t 20 kB\nVmRSS:\t 5 kB\n") is None


def test_device_names_are_known_without_importing_torch():
    code = "import sys, crlc.training.device; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
