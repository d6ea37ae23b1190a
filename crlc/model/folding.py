"""Folding of batch norms into the preceding convolutions, for faster inference.

In evaluation mode a batch norm multiplies by and adds constants, which the preceding convolution can do at no extra
cost. Batch norms are bound by memory bandwidth: without them, a small network on a CPU takes about a third less time.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

_TOLERANCE = 1e-3
"""Maximum error relative to the largest output: rounding is far below it, a wrong fold far above."""

_AFTER_NORM = ("drop", "act")
"""Modules that the batch norms of timm apply after the norm itself."""


@torch.inference_mode()
def fold_batch_norms(module: nn.Module, example: Tensor) -> nn.Module:
    """Return a faster copy of a module in evaluation mode, or the module itself if the copy has different outputs.

    Args:
        module: any network; forward hooks detect which batch norm follows which convolution.
        example: a few normalised images, (B, 3, H, W).
    """
    if not any(isinstance(part, nn.BatchNorm2d) for part in module.modules()):
        return module
    folded = copy.deepcopy(module).eval().to(memory_format=torch.channels_last)
    expected: Tensor = folded(example)
    for convolution, norm in _find_pairs(folded, example):
        _fold(convolution, norm)
        _replace(folded, norm, nn.Sequential(*(getattr(norm, name) for name in _AFTER_NORM if hasattr(norm, name))))
    error = (folded(example) - expected).abs().max()
    return folded if bool(error <= _TOLERANCE * expected.abs().max()) else module


def _find_pairs(module: nn.Module, example: Tensor) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Return pairs of a convolution and the batch norm that receives its output, if each is used exactly once."""
    outputs: dict[int, tuple[nn.Conv2d, Tensor]] = {}  # keeps the tensors alive, so that no id is reused
    uses: dict[nn.Module, int] = {}
    followed: dict[nn.BatchNorm2d, nn.Conv2d] = {}

    def record(part: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        uses[part] = uses.get(part, 0) + 1
        if isinstance(part, nn.Conv2d):
            outputs[id(output)] = part, output
        elif isinstance(part, nn.BatchNorm2d) and id(given[0]) in outputs:
            followed[part] = outputs[id(given[0])][0]

    watched = (part for part in module.modules() if isinstance(part, nn.Conv2d | nn.BatchNorm2d))
    hooks = [part.register_forward_hook(record) for part in watched]
    module(example)
    for hook in hooks:
        hook.remove()
    return [(before, norm) for norm, before in followed.items() if uses[norm] == uses[before] == 1]


def _fold(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    convolution.weight, convolution.bias = fuse_conv_bn_weights(
        convolution.weight, convolution.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )


def _replace(module: nn.Module, old: nn.Module, new: nn.Module) -> None:
    for parent in module.modules():
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)
