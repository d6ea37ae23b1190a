"""What a trained network says of images: clusters, probabilities, features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crlc.files import ArrayFile
from crlc.model import NetworkOutput
from crlc.training.distributed import ALONE, World
from crlc.training.inputs import Inputs

_BATCH = 256


@dataclass(frozen=True)
class Assignments:
    """One row per image, in the order of `ids`. In memory, or mapped from the files of a result."""

    ids: NDArray[np.int64]
    q: NDArray[np.float32]
    """Probabilities of the speaking subhead, (N, C)."""

    z: NDArray[np.float32]
    h: NDArray[np.float32]
    cluster: NDArray[np.int32]
    """The most probable cluster of each image."""

    confidence: NDArray[np.float32]
    """The probability of that cluster."""

    by_subhead: NDArray[np.int32]
    """The cluster that each subhead gives each image, (N, S)."""


@torch.no_grad()
def assign(
    network: nn.Module,
    inputs: Inputs,
    ids: NDArray[np.int64],
    subhead: int,
    *,
    positions: NDArray[np.int64] | None = None,
    folder: Path | None = None,
    world: World = ALONE,
) -> Assignments:
    """Look at images as they are, without augmentation.

    Args:
        network: trained; its mode is put back afterwards.
        inputs: where they come from.
        ids: of the images, one for each row of the inputs.
        subhead: the one that speaks.
        positions: which of them; by default all.
        folder: where to write the rows as they come, so that memory does not grow with their number; by default they
            are kept in memory.
        world: several processes write to the same folder, a part each.
    """
    chosen = np.arange(len(inputs)) if positions is None else positions
    was_training = network.training
    network.eval()
    rows: _Rows | None = None
    for number, start in enumerate(range(0, max(1, len(chosen)), _BATCH)):
        if number > 0 and number % world.size != world.rank:
            continue  # the first batch is everybody's: it tells the shapes
        output: NetworkOutput = network(inputs.read(chosen[start : start + _BATCH]))
        if rows is None:
            rows = _Rows(_shapes(len(chosen), output), folder, world)
            rows.put("ids", 0, ids[chosen])
        for name, values in _said(output, subhead).items():
            rows.put(name, start, values)
    network.train(was_training)
    assert rows is not None  # there is always a first batch
    return rows.finish(world)


def _shapes(count: int, output: NetworkOutput) -> dict[str, tuple[tuple[int, ...], type]]:
    subheads, _, clusters = output.logits.shape
    return {
        "ids": ((count,), np.int64),
        "q": ((count, clusters), np.float32),
        "z": ((count, output.z.shape[1]), np.float32),
        "h": ((count, output.h.shape[1]), np.float32),
        "cluster": ((count,), np.int32),
        "confidence": ((count,), np.float32),
        "by_subhead": ((count, subheads), np.int32),
    }


def _said(output: NetworkOutput, subhead: int) -> dict[str, NDArray[Any]]:
    q = output.q
    confidence, cluster = q[subhead].max(dim=1)
    said: dict[str, Tensor] = {
        "q": q[subhead],
        "z": output.z,
        "h": output.h,
        "cluster": cluster,
        "confidence": confidence,
        "by_subhead": q.argmax(dim=2).T,
    }
    return {name: value.cpu().numpy() for name, value in said.items()}


class _Rows:
    """Where rows go: arrays in memory, or files."""

    def __init__(self, shapes: dict[str, tuple[tuple[int, ...], type]], folder: Path | None, world: World) -> None:
        self._folder = folder
        if folder is None:
            self._arrays: dict[str, NDArray[Any]] = {
                name: np.empty(shape, kind) for name, (shape, kind) in shapes.items()
            }
            return
        if world.is_writer:
            for name, (shape, kind) in shapes.items():
                ArrayFile.create(folder / f"{name}.npy", shape, kind)
        world.wait()
        self._files = {name: ArrayFile(folder / f"{name}.npy") for name in shapes}

    def put(self, name: str, start: int, values: NDArray[Any]) -> None:
        if self._folder is None:
            self._arrays[name][start : start + len(values)] = values
        else:
            self._files[name].write(start, values)

    def finish(self, world: World) -> Assignments:
        if self._folder is None:
            return Assignments(**self._arrays)
        for file in self._files.values():
            file.close()
        world.wait()
        return Assignments(
            **{name: np.load(file.path, mmap_mode="r", allow_pickle=False) for name, file in self._files.items()}
        )
