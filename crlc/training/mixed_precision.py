"""Mixed precision of training: autocast and gradient scaling on CUDA GPUs if requested, full precision elsewhere."""

from __future__ import annotations

from typing import Any

import torch


class MixedPrecision:
    """Autocast context and gradient scaler of a run."""

    def __init__(self, device: torch.device, *, enabled: bool = True) -> None:
        """Use bfloat16 on GPUs that support it, and float16 with a gradient scaler on older ones.

        Args:
            device: device of the run; only CUDA GPUs have mixed precision.
            enabled: whether to use mixed precision on such a device; otherwise full precision.
        """
        is_mixed = enabled and device.type == "cuda"
        has_bfloat16 = not is_mixed or torch.cuda.is_bf16_supported(including_emulation=False)
        dtype = torch.bfloat16 if has_bfloat16 else torch.float16
        self.autocast = torch.autocast(device.type, dtype=dtype, enabled=is_mixed)
        self.scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)

    def load_scaler_state(self, state: dict[str, Any]) -> None:
        """Continue with the scale of a checkpoint; a run on a device without a scaler has stored none."""
        if state:  # an enabled scaler refuses an empty state
            self.scaler.load_state_dict(state)
