"""Inference: clusters, probabilities and features that a trained network computes for images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from crlc.array_files import load_array
from crlc.files import ArrayFile
from crlc.model import NetworkOutput
from crlc.training.distributed import SINGLE_PROCESS, World
from crlc.training.inputs import Inputs

_BATCH_IMAGES = 256


@dataclass(frozen=True)
class Assignments:
    """Clusters and features of images, one row per image; in memory, or memory-mapped from the files of a result."""

    ids: NDArray[np.int64]
    q: NDArray[np.float32]
    """Cluster probabilities of the selected subhead, (N, C)."""

    z: NDArray[np.float32]
    """Unit vectors of the RL-head, (N, 128)."""

    h: NDArray[np.float32]
    """Backbone features, (N, d)."""

    cluster: NDArray[np.int32]
    """Most probable cluster of each image, (N,)."""

    confidence: NDArray[np.float32]
    """Probability of that cluster, (N,)."""

    by_subhead: NDArray[np.int32]
    """Most probable cluster of each image according to each subhead, (N, S)."""


@torch.no_grad()
def assign_images(
    network: nn.Module,
    inputs: Inputs,
    ids: NDArray[np.int64],
    subhead: int,
    *,
    positions: NDArray[np.int64] | None = None,
    folder: Path | None = None,
    world: World = SINGLE_PROCESS,
) -> Assignments:
    """Assign images to clusters, without augmentation.

    Args:
        network: the network; its mode (training or evaluation) is restored afterwards.
        inputs: inputs of the network.
        ids: image id of each row of the inputs.
        subhead: the selected subhead.
        positions: rows of the inputs to use; all by default.
        folder: folder for the arrays, which are written batch by batch, so that memory does not grow with the number
            of images. By default the arrays are in memory.
        world: the processes, each of which writes a part to the same folder.
    """
    positions = np.arange(len(inputs)) if positions is None else positions
    was_training = network.training
    network.eval()
    writer: _AssignmentWriter | None = None
    for number, start in enumerate(range(0, max(1, len(positions)), _BATCH_IMAGES)):
        if number > 0 and number % world.size != world.rank:
            continue  # every process computes the first batch, which determines the shapes
        output: NetworkOutput = network(inputs.read(positions[start : start + _BATCH_IMAGES]))
        if writer is None:
            writer = _AssignmentWriter(_compute_shapes(len(positions), output), folder, world)
            writer.write("ids", 0, ids[positions])
        for name, values in _collect_arrays(output, subhead).items():
            writer.write(name, start, values)
    network.train(was_training)
    assert writer is not None  # there is always a first batch
    return writer.finish(world)


def _compute_shapes(count: int, output: NetworkOutput) -> dict[str, tuple[tuple[int, ...], type]]:
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


def _collect_arrays(output: NetworkOutput, subhead: int) -> dict[str, NDArray[Any]]:
    q = output.q
    confidence, cluster = q[subhead].max(dim=1)
    arrays: dict[str, Tensor] = {
        "q": q[subhead],
        "z": output.z,
        "h": output.h,
        "cluster": cluster,
        "confidence": confidence,
        "by_subhead": q.argmax(dim=2).T,
    }
    return {name: value.cpu().numpy() for name, value in arrays.items()}


class _AssignmentWriter:
    """Destination of the rows of an assignment: arrays in memory, or files."""

    def __init__(self, shapes: dict[str, tuple[tuple[int, ...], type]], folder: Path | None, world: World) -> None:
        self._folder = folder
        if folder is None:
            self._arrays: dict[str, NDArray[Any]] = {
                name: np.empty(shape, dtype) for name, (shape, dtype) in shapes.items()
            }
            return
        if world.is_rank_zero:
            for name, (shape, dtype) in shapes.items():
                ArrayFile.create(folder / f"{name}.npy", shape, dtype)
        world.wait_for_all()
        self._files = {name: ArrayFile(folder / f"{name}.npy") for name in shapes}

    def write(self, name: str, start: int, values: NDArray[Any]) -> None:
        if self._folder is None:
            self._arrays[name][start : start + len(values)] = values
        else:
            self._files[name].write(start, values)

    def finish(self, world: World) -> Assignments:
        if self._folder is None:
            return Assignments(**self._arrays)
        for file in self._files.values():
            file.close()
        world.wait_for_all()
        return Assignments(**{name: load_array(file.path, is_mapped=True) for name, file in self._files.items()})
