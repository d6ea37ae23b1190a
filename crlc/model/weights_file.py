"""Weights from a local checkpoint file, loaded into a ResNet without executing code from the file."""

from __future__ import annotations

import argparse
import hashlib
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from crlc.errors import UsageError, explain_system_error
from crlc.formatting import format_list
from crlc.paths import to_printable

_WRAPPERS = ("state_dict", "model")
"""Keys under which training scripts store the weights: `state_dict` (MoCo, timm) and `model` (torchvision)."""

_HEAD = {
    "fc.0.weight": "first.weight",
    "fc.0.bias": "first.bias",
    "fc.2.weight": "second.weight",
    "fc.2.bias": "second.bias",
}
"""Names of the tensors of MoCo v2's head, and their names in `crlc.model.heads.RepresentationHead`."""

_HEAD_DIMENSIONS = 128
_IDENTITY_DIGITS = 12
_MAX_STEM_CHARACTERS = 80
_MAX_LISTED_NAMES = 4
_MAX_REASON_CHARACTERS = 160
_ARCHIVE_START = b"PK\x03\x04"


class UnusableWeightsError(ValueError):
    """A weights file cannot be used. The message is the reason, which follows a colon in the error for the user."""

    def __init__(self, reason: str, *, advice: str = "") -> None:
        """Store the reason, and what to do about it."""
        super().__init__(reason)
        self.advice = advice


class LoadedWeights(NamedTuple):
    """Result of loading a backbone from a weights file."""

    rl_head: dict[str, Tensor] | None
    """State of a `RepresentationHead`, if the file contains one (MoCo v2)."""

    identity: str
    """Identifies the weights; usable as a file name."""


def load_weights_file(file: Path, module: nn.Module) -> LoadedWeights:
    """Load a checkpoint in the layout of torchvision, timm or MoCo into a ResNet without its classifier.

    No code from the file is executed, and `module` is unchanged when the file does not fit.

    Args:
        file: torch or safetensors file.
        module: receives the weights.

    Raises:
        UsageError: the file does not exist, cannot be read without executing code, or does not fit.
    """
    path = to_printable(str(file))
    try:
        digest = compute_sha256(file)
    except OSError as error:
        raise UsageError(
            f"The weights file {path} cannot be read: {error.strerror}.", advice="Check the path."
        ) from None
    try:
        found = _extract_tensors(read_checkpoint(file))
    except UnusableWeightsError as error:
        raise UsageError(f"The weights file {path} cannot be used: {error}", advice=error.advice) from None
    head = {ours: found[theirs] for theirs, ours in _HEAD.items() if theirs in found}
    found = {name: tensor for name, tensor in found.items() if not name.startswith("fc.")}
    own = module.state_dict()
    for name in own.keys() - found.keys():
        if name.endswith(".num_batches_tracked"):  # missing in files from before 2018, and unused in evaluation mode
            found[name] = own[name]
    problems = _describe_differences(found, own)
    if problems:
        raise UsageError(
            f"The weights file {path} does not fit this network: {problems}.",
            advice="Choose the backbone and image size of the network that the file was saved from.",
        )
    module.load_state_dict(found)
    return LoadedWeights(head if _is_head(head) else None, build_identity(file.stem, digest))


def read_checkpoint(file: Path) -> Any:
    """Return the content of a safetensors or torch file, on the CPU, without executing code from it.

    Raises:
        UnusableWeightsError: the file cannot be read.
        OutOfMemoryError, AccessError: there is not enough memory, or no permission.
    """
    try:
        if file.suffix == ".safetensors":
            import safetensors.torch

            return safetensors.torch.load_file(file)
        with file.open("rb") as stream:
            is_archive = stream.read(len(_ARCHIVE_START)) == _ARCHIVE_START
        if is_archive:  # files of torch before 1.6 are none, and have no checksums
            require_checksums(file)
        # Training scripts store their options as a Namespace; creating one executes no code of the file.
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files make the readers raise errors of any type
        explained = explain_system_error(error, file)
        if explained is not None:
            raise explained from None
        forbidden = re.search(r"GLOBAL (\S+)", str(error))
        if forbidden is not None:
            raise UnusableWeightsError(
                f"reading it would execute code ({forbidden[1]}); no code was executed.",
                advice="Save the tensors alone: torch.save(model.state_dict(), FILE).",
            ) from error
        reason = (str(error).strip().splitlines()[:1] or [type(error).__name__])[0][:_MAX_REASON_CHARACTERS]
        raise UnusableWeightsError(
            f"it is neither a torch file of tensors nor safetensors, or incomplete ({reason})."
        ) from error


def require_checksums(file: Path) -> None:
    """Compare the checksums in a torch file, which `torch.load` ignores: it would load wrong weights without an error.

    Raises:
        ValueError: a part has another checksum.
        BadZipFile: the file is damaged otherwise, or of another kind.
    """
    with zipfile.ZipFile(file) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"the checksum of {damaged} is wrong")


def compute_sha256(file: Path) -> str:
    """Return the SHA-256 hash of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def build_identity(name: str, digest: str) -> str:
    """Return a file name that identifies weights.

    Args:
        name: name of the network or of the file; characters that are not safe in a file name are replaced.
        digest: SHA-256 hash of the weights file, in hexadecimal.
    """
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)[:_MAX_STEM_CHARACTERS]}@{digest[:_IDENTITY_DIGITS]}"


def _extract_tensors(content: Any) -> dict[str, Tensor]:
    """Return the tensors of the backbone and of the layers after it, under torchvision's names."""
    for wrapper in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping):
        raise UnusableWeightsError(f"it contains a {type(content).__name__}, not tensors by name.")
    tensors = {
        str(name).removeprefix("module."): tensor for name, tensor in content.items() if isinstance(tensor, Tensor)
    }
    if not tensors:
        raise UnusableWeightsError("it contains no tensors by name.")
    # MoCo has two encoders and a queue; the query encoder is the one trained by gradients.
    query = {name.removeprefix("encoder_q."): t for name, t in tensors.items() if name.startswith("encoder_q.")}
    return query or tensors


def _is_head(head: Mapping[str, Tensor]) -> bool:
    """Return whether the tensors are those of Linear(d, d) and Linear(d, 128), with biases."""
    if len(head) != len(_HEAD):
        return False
    width = head["first.bias"].shape[0]
    return head["first.weight"].shape == (width, width) and head["second.weight"].shape == (_HEAD_DIMENSIONS, width)


def _describe_differences(found: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> str:
    """Return a description of the differences between file and network; empty when there are none."""
    shapes = [
        f"{name} ({_format_shape(found[name])} in the file, {_format_shape(own[name])} here)"
        for name in own
        if name in found and found[name].shape != own[name].shape
    ]
    kinds = {
        "missing": [name for name in own if name not in found],
        "unexpected": [name for name in found if name not in own],
        "of another shape": shapes,
    }
    return "; ".join(
        f"{len(names)} {kind}: {format_list([*map(to_printable, names)], _MAX_LISTED_NAMES)}"
        for kind, names in kinds.items()
        if names
    )


def _format_shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a single value"
