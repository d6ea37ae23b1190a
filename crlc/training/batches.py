"""What a step is given: which images, which views of them, which neighbours, which labelled ones. By seed and step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.training.distributed import World
from crlc.training.images import TrainingImages
from crlc.training.inputs import Inputs
from crlc.training.randomness import generator_for
from crlc.training.settings import TrainSettings
from crlc.training.steps import Batch


@dataclass(frozen=True)
class LabelledImages:
    """Images of the run that a person has labelled."""

    positions: NDArray[np.int64]
    """Where in the run's images they stand, (L,)."""

    targets: NDArray[np.int64]
    """The output that stands for each one's name, (L,)."""


class BatchMaker:
    """Makes the batches of one stage; each process makes its share of them."""

    def __init__(
        self, inputs: Inputs, images: TrainingImages, settings: TrainSettings, batch_size: int, world: World
    ) -> None:
        """Take what batches are made of.

        Args:
            inputs: read and turned into views.
            images: what is known of them.
            settings: of the stage.
            batch_size: of all processes together.
            world: the processes.
        """
        self._inputs, self._images, self._settings = inputs, images, settings
        self._batch_size, self._world = batch_size, world
        self._order_epoch = -1
        self.neighbours: NDArray[np.int64] | None = None
        self.labels: LabelledImages | None = None

    def make(self, step: int, epoch: int, place: int) -> Batch:
        """The batch of a step: that many images from a place in the order of the epoch."""
        settings = self._settings
        if epoch != self._order_epoch:
            generator = generator_for(settings.seed, "order", epoch)
            self._order, self._order_epoch = self._order_of_epoch(generator), epoch
        positions = self._order[place * self._batch_size : (place + 1) * self._batch_size]
        generator = generator_for(settings.seed, "step", step)
        views = self._views(positions, generator)
        labelled, targets = self._labelled(generator)
        device = views[0].device
        clusterable = None
        if self._images.clusterable is not None:
            clusterable = torch.from_numpy(self._images.clusterable[positions.numpy()]).to(device)
        return Batch(views, positions.to(device), generator, clusterable, labelled, targets)

    def _order_of_epoch(self, generator: torch.Generator) -> Tensor:
        """All images once; where only clusters are learned those that have one, over and over, as many times in all."""
        clusterable, count = self._images.clusterable, len(self._images)
        if clusterable is None or self._settings.feature_weight:
            return torch.randperm(count, generator=generator)
        useful = torch.from_numpy(np.flatnonzero(clusterable))
        rounds = -(-count // len(useful))
        return torch.cat([useful[torch.randperm(len(useful), generator=generator)] for _ in range(rounds)])[:count]

    def _views(self, positions: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        count = len(positions)
        here, share = self._world.rows(count), self._world.share(count)
        rows = self._inputs.read(positions[here])
        first = self._inputs.view(rows, generator, share)
        if self._settings.implementation == "memory-bank":
            return (first,)
        if self.neighbours is not None:
            drawn = torch.randint(self.neighbours.shape[1], (count,), generator=generator).numpy()
            partners = self.neighbours[positions.numpy(), drawn].astype(np.int64)
            rows = self._inputs.read(partners[here])
        return (first, self._inputs.view(rows, generator, share))

    def _labelled(self, generator: torch.Generator) -> tuple[Tensor | None, Tensor | None]:
        """The same number of labelled images in every step, each as often as any other."""
        if self.labels is None or not len(self.labels.positions):
            return None, None
        count = -(-self._settings.labelled_batch // self._world.size) * self._world.size
        repeats = -(-count // len(self.labels.positions))
        rounds = [torch.randperm(len(self.labels.positions), generator=generator) for _ in range(repeats)]
        drawn = torch.cat(rounds)[:count].numpy()
        rows = self._inputs.read(self.labels.positions[drawn][self._world.rows(count)])
        views = self._inputs.view(rows, generator, self._world.share(count))
        return views, torch.from_numpy(self.labels.targets[drawn]).to(views.device)
