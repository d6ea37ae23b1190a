"""Weights from a file on this computer: read without running code, and put into one of our ResNets."""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from crlc.errors import UsageError
from crlc.names import printable

_WRAPPERS = ("state_dict", "model")
"""Where training scripts (MoCo's and timm's; torchvision's) keep the weights among other things."""

_HEAD = {
    "fc.0.weight": "first.weight",
    "fc.0.bias": "first.bias",
    "fc.2.weight": "second.weight",
    "fc.2.bias": "second.bias",
}
"""MoCo v2's head, and the same tensors in `crlc.model.heads.RepresentationHead`."""

_HEAD_OUT = 128
_DIGITS = 12
_LONGEST_STEM = 80
_SHOWN = 4


class LoadedWeights(NamedTuple):
    """What else a file of weights had to say, once its backbone is loaded."""

    rl_head: dict[str, Tensor] | None
    """State of a `RepresentationHead`, if the file holds a head of that form (MoCo v2)."""

    identity: str
    """Names exactly these weights; fit for a file name."""


def load_weights_file(file: Path, module: nn.Module) -> LoadedWeights:
    """Load a checkpoint in torchvision's, timm's or MoCo's layout into a ResNet without its classifier.

    Nothing in the file is run, and `module` stays as it was when the file does not fit.

    Raises:
        UsageError: there is no such file, it cannot be read without running code, or it does not fit.
    """
    shown = printable(str(file))
    try:
        digest = sha256(file)
    except OSError as error:
        raise UsageError(f"The weights file {shown} cannot be read: {error.strerror}. Check the path.") from None
    try:
        found = _backbone_tensors(read_checkpoint(file))
    except ValueError as error:
        raise UsageError(f"The weights file {shown} cannot be used: {error}") from None
    head = {ours: found[theirs] for theirs, ours in _HEAD.items() if theirs in found}
    found = {name: tensor for name, tensor in found.items() if not name.startswith("fc.")}
    own = module.state_dict()
    for name in own.keys() - found.keys():
        if name.endswith(".num_batches_tracked"):  # not in files from before 2018, and not used in eval mode
            found[name] = own[name]
    problems = _differences(found, own)
    if problems:
        raise UsageError(
            f"The weights file {shown} does not fit this network: {problems}. "
            "Choose the backbone (and an image size) that the file was made for."
        )
    module.load_state_dict(found)
    return LoadedWeights(head if _is_head(head) else None, identity(file.stem, digest))


def read_checkpoint(file: Path) -> Any:
    """The content of a safetensors or torch file, on the CPU, without running anything from it.

    Raises:
        ValueError: that is not possible; the text says why and what to do.
    """
    try:
        if file.suffix == ".safetensors":
            import safetensors.torch

            return safetensors.torch.load_file(file)
        # A Namespace is what training scripts keep their options in; making one runs nothing.
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes the readers fail in any way there is
        forbidden = re.search(r"GLOBAL (\S+)", str(error))
        if forbidden is not None:
            raise ValueError(
                f"reading it would run code ({forbidden[1]}), and nothing was run. "
                "Save the tensors alone: torch.save(model.state_dict(), FILE)."
            ) from error
        first_line = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise ValueError(
            f"it is neither a torch file of tensors nor safetensors, or incomplete ({first_line[0][:160]})."
        ) from error


def sha256(file: Path) -> str:
    """The hash of a file's content, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def identity(name: str, digest: str) -> str:
    """A file name that stands for exactly these weights."""
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)[:_LONGEST_STEM]}@{digest[:_DIGITS]}"


def _backbone_tensors(content: Any) -> dict[str, Tensor]:
    """The tensors of the backbone and what follows it, by torchvision's names."""
    for wrapper in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping):
        raise ValueError(f"it holds a {type(content).__name__}, not tensors by name.")
    tensors = {
        str(name).removeprefix("module."): tensor for name, tensor in content.items() if isinstance(tensor, Tensor)
    }
    if not tensors:
        raise ValueError("it holds no tensors by name.")
    # MoCo has two encoders and a queue; the one that was trained by gradients is the query's.
    query = {name.removeprefix("encoder_q."): t for name, t in tensors.items() if name.startswith("encoder_q.")}
    return query or tensors


def _is_head(head: Mapping[str, Tensor]) -> bool:
    """Whether these are Linear(d, d) and Linear(d, 128), with biases."""
    if len(head) != len(_HEAD):
        return False
    width = head["first.bias"].shape[0]
    return head["first.weight"].shape == (width, width) and head["second.weight"].shape == (_HEAD_OUT, width)


def _differences(found: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> str:
    """What stands between the file and the network, in words; empty when nothing does."""
    shapes = [
        f"{name} ({_shape(found[name])} in the file, {_shape(own[name])} here)"
        for name in own
        if name in found and found[name].shape != own[name].shape
    ]
    kinds = {
        "missing": [name for name in own if name not in found],
        "unexpected": [name for name in found if name not in own],
        "of another shape": shapes,
    }
    return "; ".join(f"{len(names)} {kind}: {_first_few(names)}" for kind, names in kinds.items() if names)


def _first_few(names: Iterable[str]) -> str:
    names = [printable(name) for name in names]
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a single value"
