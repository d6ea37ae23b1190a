"""Batches of training steps: images, their views, neighbours and labelled images, determined by seed and step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.training.distributed import SINGLE_PROCESS, World
from crlc.training.images import TrainingImages
from crlc.training.inputs import Inputs
from crlc.training.randomness import make_generator
from crlc.training.stages import Stage
from crlc.training.steps import Batch


@dataclass(frozen=True)
class LabelTargets:
    """Labelled images of a run, and their target clusters."""

    positions: NDArray[np.int64]
    """Positions in the images of the run, (L,)."""

    targets: NDArray[np.int64]
    """Cluster that each image's label was matched to, (L,)."""

    probabilities: NDArray[np.float32] | None = None
    """Pseudo-labels: target probabilities of all images of the run, (N, C)."""


class BatchBuilder:
    """Builds the batches of one stage; each process builds its slice of them."""

    def __init__(
        self,
        inputs: Inputs,
        images: TrainingImages,
        stage: Stage,
        batch_size: int,
        *,
        neighbours: NDArray[np.integer[Any]] | None = None,
        labels: LabelTargets | None = None,
        world: World = SINGLE_PROCESS,
    ) -> None:
        """Store the sources of the batches.

        Args:
            inputs: inputs of the network, one row per image.
            images: the images of the run.
            stage: the stage and its settings.
            batch_size: number of images per step, summed over all processes.
            neighbours: neighbours of each image, (N, K); one of them, drawn at random, completes the positive pair.
                `None` to pair two views of the same image.
            labels: labelled images, for CRLC-semi.
            world: the processes that share a batch.
        """
        self._inputs, self._images, self._stage, self._settings = inputs, images, stage, stage.settings
        self._batch_size, self._world = batch_size, world
        self._neighbours, self._labels = neighbours, labels
        self._order_epoch = -1

    def build(self, step: int, epoch: int, index: int) -> Batch:
        """Return the batch of a step.

        Args:
            step: index of the step in the run, from 0; it determines the random draws.
            epoch: index of the epoch in the run, from 0; it determines the order of the images.
            index: index of the batch in its epoch, from 0.
        """
        settings = self._settings
        if epoch != self._order_epoch:
            generator = make_generator(settings.run.seed, "order", epoch)
            self._order, self._order_epoch = self._draw_order(generator), epoch
        positions = self._order[index * self._batch_size : (index + 1) * self._batch_size]
        generator = make_generator(settings.run.seed, "step", step)
        views, partners = self._draw_views(positions, generator)
        labelled, targets = self._draw_labelled(generator)
        device = views[0].device
        clusterable = None
        if self._images.clusterable is not None:
            clusterable = torch.from_numpy(self._images.clusterable[positions.numpy()]).to(device)
        pseudo_labels = None
        if self._labels is not None and self._labels.probabilities is not None:
            targets_of_all = self._labels.probabilities
            first, second = (torch.from_numpy(targets_of_all[rows]) for rows in (positions.numpy(), partners))
            pseudo_labels = (first.to(device), second.to(device))
        return Batch(views, positions.to(device), generator, clusterable, labelled, targets, pseudo_labels)

    def _draw_order(self, generator: torch.Generator) -> Tensor:
        """Return the order of the images in an epoch.

        It contains every image once; in a stage without use for the others, every image that L_cluster is computed for.
        With a `clusterable_fraction` it has the length of an epoch with every image once, but each batch holds that
        fraction of images that L_cluster is computed for, or as many as there are, and each group of images is repeated
        or cut as needed. A batch never holds an image twice: it would be its own negative.
        """
        count = len(self._images)
        clusterable = torch.from_numpy(self._images.list_clusterable())
        if self._stage.trains_clusterable_only:
            return _cycle(clusterable, len(clusterable), generator)
        fraction = self._settings.data.clusterable_fraction
        if not fraction or len(clusterable) == count:
            return torch.randperm(count, generator=generator)
        assert self._images.clusterable is not None
        others = torch.from_numpy(np.flatnonzero(~self._images.clusterable))
        steps = max(1, count // self._batch_size)
        wanted = max(1, round(fraction * self._batch_size), self._batch_size - len(others))
        own = min(self._batch_size, wanted, len(clusterable))
        first = _draw_rows(clusterable, steps, own, generator)
        rest = _draw_rows(others, steps, self._batch_size - own, generator)
        return torch.cat([first, rest], dim=1).flatten()

    def _draw_views(
        self, positions: Tensor, generator: torch.Generator
    ) -> tuple[tuple[Tensor, ...], NDArray[np.int64]]:
        """Return one or two views of this process's slice, and the positions of the images in the second view."""
        count = len(positions)
        partners = positions.numpy()
        own, draws = self._world.slice_rows(count), self._world.slice_draws(count)
        rows = self._inputs.read_view_rows(positions[own])
        first = self._inputs.draw_view(rows, generator, draws)
        if self._settings.pairing.implementation == "memory-bank":
            return (first,), partners
        if self._neighbours is not None:
            drawn = torch.randint(self._neighbours.shape[1], (count,), generator=generator).numpy()
            partners = self._neighbours[positions.numpy(), drawn].astype(np.int64)
            rows = self._inputs.read_view_rows(partners[own])
        return (first, self._inputs.draw_view(rows, generator, draws)), partners

    def _draw_labelled(self, generator: torch.Generator) -> tuple[Tensor | None, Tensor | None]:
        """Return views and target clusters of labelled images: a fixed number per step, each image equally often."""
        if self._labels is None or not len(self._labels.positions):
            return None, None
        count = -(-self._settings.data.labelled_batch_size // self._world.size) * self._world.size
        drawn = _cycle(torch.arange(len(self._labels.positions)), count, generator).numpy()
        rows = self._inputs.read_view_rows(self._labels.positions[drawn][self._world.slice_rows(count)])
        views = self._inputs.draw_view(rows, generator, self._world.slice_draws(count))
        return views, torch.from_numpy(self._labels.targets[drawn]).to(views.device)


def _cycle(positions: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return positions in random order, `count` in total: each once before any is repeated."""
    return positions[torch.cat(_draw_orders(len(positions), count, generator))[:count]]


def _draw_rows(positions: Tensor, rows: int, length: int, generator: torch.Generator) -> Tensor:
    """Return rows of positions in random order, (rows, length), as `_cycle` does, but without repetition in a row.

    A row that begins with the end of one order and ends with the beginning of the next could hold a position twice:
    such positions move back in the next order.
    """
    if not length:
        return positions.new_empty(rows, 0)
    orders: list[Tensor] = []
    for drawn in _draw_orders(len(positions), rows * length, generator):
        begun = len(orders) * len(positions) % length
        head = drawn[~torch.isin(drawn, orders[-1][-begun:])][: length - begun] if begun else drawn[:0]
        orders.append(torch.cat([head, drawn[~torch.isin(drawn, head)]]))
    return positions[torch.cat(orders)[: rows * length]].view(rows, length)


def _draw_orders(count: int, total: int, generator: torch.Generator) -> list[Tensor]:
    """Return random orders of `count` rows, with at least `total` rows together."""
    return [torch.randperm(count, generator=generator) for _ in range(-(-total // count))]
