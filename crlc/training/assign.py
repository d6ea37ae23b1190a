"""What a trained network says of images: clusters, probabilities, features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.data.augment import normalise
from crlc.model import CrlcNetwork, NetworkOutput
from crlc.training.images import TrainingImages

_BATCH = 512


@dataclass(frozen=True)
class Assignments:
    """One row per image, in the order of `ids`."""

    ids: NDArray[np.int64]
    q: NDArray[np.float32]
    """Probabilities of the speaking subhead, (N, C)."""

    z: NDArray[np.float32]
    h: NDArray[np.float32]
    by_subhead: NDArray[np.int64]
    """The cluster that each subhead gives each image, (S, N)."""

    @property
    def clusters(self) -> NDArray[np.int64]:
        """The most probable cluster of each image."""
        return np.argmax(self.q, axis=1)  # type: ignore[no-any-return]

    @property
    def confidence(self) -> NDArray[np.float32]:
        """The probability of that cluster."""
        return np.max(self.q, axis=1)  # type: ignore[no-any-return]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a run's result holds."""
        clusters = self.clusters.astype(np.int32)
        return {
            "ids": self.ids,
            "q": self.q,
            "z": self.z,
            "h": self.h,
            "cluster": clusters,
            "confidence": self.confidence,
        }


@torch.no_grad()
def assign(
    network: CrlcNetwork,
    images: TrainingImages,
    subhead: int,
    device: torch.device,
    positions: NDArray[np.int64] | None = None,
    batch_size: int = _BATCH,
) -> Assignments:
    """Look at images as they are, without augmentation.

    Args:
        network: trained; its mode is put back afterwards.
        images: where they come from.
        subhead: the one that speaks.
        device: where to compute.
        positions: which of them; by default all.
        batch_size: how many at a time.
    """
    chosen = np.arange(len(images)) if positions is None else positions
    was_training = network.training
    network.eval()
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for start in range(0, len(chosen), batch_size):
        output: NetworkOutput = network(normalise(images.batch(chosen[start : start + batch_size], device)))
        q = output.q
        parts.append((q[subhead].cpu(), output.z.float().cpu(), output.h.float().cpu(), q.argmax(dim=2).cpu()))
    network.train(was_training)
    rows = [torch.cat([part[index] for part in parts]).numpy() for index in range(3)]
    by_subhead = torch.cat([part[3] for part in parts], dim=1).numpy()
    return Assignments(images.ids[chosen], rows[0], rows[1], rows[2], by_subhead)
