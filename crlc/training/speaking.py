"""Which subhead speaks for the model. Classes have no say in it.

With pairs of views it is the one with the lowest loss. With neighbours there is better evidence: how much more often
than by chance an image and its neighbours are in the same cluster (Cohen's kappa), which unlike the loss has no
liking for clusters of equal size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from crlc.training.assign import assign
from crlc.training.inputs import Inputs

_ANCHORS = 2_000
_NEIGHBOURS = 10


def subhead_by_neighbours(network: nn.Module, inputs: Inputs, neighbours: NDArray[Any]) -> int:
    """The subhead whose clusters the neighbours of a sample of images confirm most."""
    anchors = np.linspace(0, len(inputs) - 1, min(_ANCHORS, len(inputs))).astype(np.int64)
    near = np.asarray(neighbours[anchors, :_NEIGHBOURS], np.int64)
    members = np.unique(np.concatenate([anchors, near.ravel()]))
    clusters = assign(network, inputs, np.arange(len(inputs)), 0, positions=members).by_subhead
    own, theirs = clusters[np.searchsorted(members, anchors)], clusters[np.searchsorted(members, near)]
    return int(np.argmax([neighbour_kappa(own[:, s], theirs[:, :, s]) for s in range(clusters.shape[1])]))


def neighbour_kappa(own: NDArray[Any], theirs: NDArray[Any]) -> float:
    """Agreement of images with their neighbours beyond chance: 1 always, 0 as by chance.

    Args:
        own: clusters of images, (N,).
        theirs: clusters of their neighbours, (N, K).
    """
    count = int(max(own.max(), theirs.max())) + 1
    agreed = float((own[:, None] == theirs).mean())
    shares = np.bincount(own, minlength=count) / own.size
    their_shares = np.bincount(theirs.ravel(), minlength=count) / theirs.size
    by_chance = float(shares @ their_shares)
    return 0.0 if by_chance >= 1 else (agreed - by_chance) / (1 - by_chance)
