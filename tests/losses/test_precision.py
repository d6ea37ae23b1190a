"""Losses of half-precision inputs under autocast."""

from __future__ import annotations

import pytest
import torch

from crlc.losses import CRITICS, logit_penalty, mean_entropy, probability_contrastive


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_losses_of_half_precision_inputs_are_finite_float32(critic: str, dtype: torch.dtype):
    logits = (20 * torch.randn(2, 16, 10, generator=torch.Generator().manual_seed(0))).to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        q = logits.softmax(dim=2)
        value = probability_contrastive(q, q.roll(1, 1), critic, 0.01) - mean_entropy(q) + logit_penalty(logits)
    assert value.dtype == torch.float32
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(logits.grad).all()
