"""Mixed precision of training: autocast and gradient scaling on GPUs, full precision elsewhere."""

from __future__ import annotations

from typing import Any

import torch


class MixedPrecision:
    """Autocast context and gradient scaler of a run."""

    def __init__(self, device: torch.device) -> None:
        """Use bfloat16 on GPUs that support it, and float16 with a gradient scaler on older ones."""
        has_bfloat16 = device.type != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)
        dtype = torch.bfloat16 if has_bfloat16 else torch.float16
        self.autocast = torch.autocast(device.type, dtype=dtype, enabled=device.type == "cuda")
        self.scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)

    def load_scaler_state(self, state: dict[str, Any]) -> None:
        """Continue with the scale of a checkpoint; a run on a device without a scaler has stored none."""
        if state:  # an enabled scaler refuses an empty state
            self.scaler.load_state_dict(state)
