"""CRLC-semi, Eq. 12: a run that goes on from a parent with what a person said of some images.

Names are matched to the outputs of each subhead, and the outputs put in the same order in all of them; so one
target fits every subhead. The speaking subhead keeps its numbers: cluster 3 of the parent is cluster 3 of the child.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.analysis.agreement import contingency
from crlc.analysis.name_matching import matched_names
from crlc.model.heads import initialise
from crlc.training.batches import LabelledImages
from crlc.training.randomness import generator_for
from crlc.training.settings import TrainSettings

_SEMI_SHARE = 4
"""A semi-supervised run takes a quarter of its parent's epochs: it does not begin from nothing."""

_LEAST_STEPS = 150
_NAMED = 1000.0
"""A labelled image counts more than any number of images that only overlap."""


@dataclass(frozen=True)
class NamedOutputs:
    """Which output stands for which name."""

    names: tuple[str, ...]
    outputs: NDArray[np.int64]
    """The output of each name, (names,)."""

    orders: NDArray[np.int64]
    """For each subhead, which of its outputs comes to stand where, (S, C)."""

    far: tuple[str, ...]
    """Names none of whose labelled images lies in the cluster that was matched to them."""

    @property
    def clusters(self) -> int:
        """C, with the outputs that had to be added."""
        return int(self.orders.shape[1])

    def by_output(self) -> dict[int, str]:
        """The name of each output that has one."""
        return dict(zip(self.outputs.tolist(), self.names, strict=True))


def match_names(
    q: NDArray[np.float32],
    by_subhead: NDArray[np.int32],
    speaking: int,
    labelled: NDArray[np.int64],
    names: list[str],
) -> NamedOutputs:
    """Match names to outputs, as many labelled images as possible in the cluster of their name.

    Args:
        q: probabilities of the speaking subhead for all images of the parent, (N, C).
        by_subhead: the cluster that each subhead gives each image, (N, S).
        speaking: which subhead speaks.
        labelled: positions of the labelled images, (L,).
        names: what a person said of each of them.
    """
    matched = matched_names(q[labelled], by_subhead[labelled, speaking].astype(np.int64), names)
    outputs = matched.clusters
    targets = outputs[np.searchsorted(np.array(matched.names, object), np.array(names, object))]
    clusters = max(q.shape[1], len(matched.names))
    orders = [
        np.arange(clusters)
        if subhead == speaking
        else _aligned(by_subhead, subhead, speaking, clusters, labelled, targets)
        for subhead in range(by_subhead.shape[1])
    ]
    return NamedOutputs(matched.names, outputs, np.stack(orders), matched.far)


def _aligned(
    by_subhead: NDArray[np.int32],
    subhead: int,
    speaking: int,
    clusters: int,
    labelled: NDArray[np.int64],
    targets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Which output of a subhead is what each output of the speaking one is: labels first, then what they share."""
    from scipy.optimize import linear_sum_assignment

    score = np.zeros((clusters, clusters))
    shared = contingency(by_subhead[:, speaking], by_subhead[:, subhead])
    score[: shared.shape[0], : shared.shape[1]] = shared / len(by_subhead)
    np.add.at(score, (targets, by_subhead[labelled, subhead]), _NAMED)
    _, order = linear_sum_assignment(score, maximize=True)
    return np.asarray(order, np.int64)


def first_weights(parent: dict[str, Tensor], named: NamedOutputs, seed: int) -> dict[str, Tensor]:
    """A parent's weights with its outputs in their new order, and new outputs for names too many."""
    weight, bias = parent["c_head.second_weight"], parent["c_head.second_bias"]
    subheads, width, clusters = weight.shape
    added = named.clusters - clusters
    if added:
        fresh = torch.empty(subheads, width, added)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator_for(seed, "added outputs").initial_seed())
            initialise(fresh, width)
        weight = torch.cat([weight, fresh.to(weight)], dim=2)
        bias = torch.cat([bias, bias.new_zeros(subheads, 1, added)], dim=2)
    orders = torch.from_numpy(named.orders).to(weight.device)[:, None, :]
    return {
        **parent,
        "c_head.second_weight": weight.gather(2, orders.expand(-1, width, -1)),
        "c_head.second_bias": bias.gather(2, orders),
    }


def labelled_images(positions: NDArray[np.int64], names: list[str], named: NamedOutputs) -> LabelledImages:
    """What the trainer wants to know of labels."""
    output = {name: number for number, name in named.by_output().items()}
    return LabelledImages(positions, np.array([output[name] for name in names], np.int64))


def semi_settings(parent: TrainSettings, clusters: int, images: int) -> TrainSettings:
    """The settings of a run that goes on from a parent's: gently and for a shorter time, once."""
    if parent.method == "semi":
        return replace(parent, clusters=clusters)
    steps_per_epoch = max(1, images // min(parent.batch_size, images))
    epochs = max(parent.epochs // _SEMI_SHARE, -(-_LEAST_STEPS // steps_per_epoch))
    return replace(
        parent,
        method="semi",
        clusters=clusters,
        epochs=epochs,
        frozen=parent.frozen and not parent.finetune_epochs,
        pretrain_epochs=0,
        finetune_epochs=0,
        learning_rate=parent.finetune_learning_rate if parent.finetune_epochs else parent.learning_rate / 3,
        schedule="cosine",
        warmup_epochs=0.0,
    )
