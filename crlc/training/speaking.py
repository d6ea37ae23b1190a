"""Which subhead speaks for the model. Classes have no say in it.

With pairs of views it is the one with the lowest loss of the last epoch. With neighbours there is better evidence:
how much the clusters of images tell of the clusters of their neighbours, without dropout and for whole clusters
instead of probabilities. Half of the clusters' entropy is taken off it, as information alone likes clusters of equal
size whatever the images say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from crlc.analysis.agreement import contingency
from crlc.training.assign import assign
from crlc.training.inputs import Inputs

_ANCHORS = 2_000
_NEIGHBOURS = 20
_CLEARLY_AHEAD = 0.02
"""As a share of the most information that so many clusters could have."""


def subhead_by_neighbours(network: nn.Module, inputs: Inputs, neighbours: NDArray[Any], uneven: int = 0) -> int:
    """The subhead whose clusters the neighbours of a sample of images confirm most.

    Args:
        network: with all subheads.
        inputs: of the network.
        neighbours: of each row of the inputs, (N, K).
        uneven: how many subheads, the last ones, were trained without a liking for even clusters. They can follow the
            images more closely, and so are a little ahead also where groups are even; they must be clearly ahead.
    """
    anchors = np.linspace(0, len(inputs) - 1, min(_ANCHORS, len(inputs))).astype(np.int64)
    near = np.asarray(neighbours[anchors, :_NEIGHBOURS], np.int64)
    members = np.unique(np.concatenate([anchors, near.ravel()]))
    clusters = assign(network, inputs, np.arange(len(inputs)), 0, positions=members).by_subhead
    own, theirs = clusters[np.searchsorted(members, anchors)], clusters[np.searchsorted(members, near)]
    scores = np.array([confirmation(own[:, s], theirs[:, :, s]) for s in range(clusters.shape[1])])
    even = len(scores) - uneven
    best, best_uneven = int(scores[:even].argmax()), even + int(scores[even:].argmax()) if uneven else -1
    clearly = _CLEARLY_AHEAD * np.log(max(2, int(clusters.max()) + 1))
    return best_uneven if uneven and scores[best_uneven] > scores[best] + clearly else best


def confirmation(own: NDArray[Any], theirs: NDArray[Any]) -> float:
    """I(y; ỹ) - H(y) / 2, in nats, of the clusters of images, (N,), and of their neighbours, (N, K)."""
    shares = np.bincount(own) / len(own)
    entropy = -float((shares[shares > 0] * np.log(shares[shares > 0])).sum())
    return neighbour_information(own, theirs) - entropy / 2


def neighbour_information(own: NDArray[Any], theirs: NDArray[Any]) -> float:
    """Mutual information, in nats, between the cluster of an image and that of one of its neighbours.

    Args:
        own: clusters of images, (N,).
        theirs: clusters of their neighbours, (N, K).
    """
    pairs = contingency(np.repeat(own, theirs.shape[1]), theirs.ravel()) / theirs.size
    expected = np.outer(pairs.sum(axis=1), pairs.sum(axis=0))
    seen = pairs > 0
    return float((pairs[seen] * np.log(pairs[seen] / expected[seen])).sum())
