"""Selection of the subhead whose clusters are the result of a run. No classes are used.

With pairs of views the selected subhead is the one with the lowest clustering loss of the last epoch. With pairs of
neighbours the mutual information between the clusters of images and of their neighbours is better evidence: it is
computed without dropout and from assigned clusters instead of probabilities. Half of the entropy of the clusters is
subtracted, because mutual information alone prefers clusters of equal size, regardless of the images. The score of a
subhead is therefore I(y; ỹ) - H(y) / 2. This score is not from the paper.

With pseudo-labels the loss decides, because it contains the labels. Unbalanced subheads, which are trained with another
λ1, never win by their loss (`EpochTotals` compares only the others), and by neighbours only with a margin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from crlc.analysis.class_metrics import compute_contingency
from crlc.training.inference import assign_images
from crlc.training.inputs import Inputs

_SAMPLED_IMAGES = 2_000
_NEIGHBOURS_PER_IMAGE = 20
_UNBALANCED_MARGIN = 0.02
"""Margin by which an unbalanced subhead must win, as a fraction of log C, the highest possible information."""


def select_subhead(
    lowest_loss_subhead: int,
    network: nn.Module,
    inputs: Inputs,
    neighbours: NDArray[Any] | None,
    unbalanced: int = 0,
    *,
    has_pseudo_labels: bool = False,
) -> int:
    """Return the selected subhead: by the clusters of neighbours where there are neighbours, else by the loss.

    With pseudo-labels the loss decides, because it contains the labels, which are better evidence than neighbours.

    Args:
        lowest_loss_subhead: the subhead with the lowest clustering loss of the last epoch.
        network: the network with all subheads.
        inputs: inputs of the network.
        neighbours: neighbours of each input, (N, K); `None` for pairs of views.
        unbalanced: number of subheads, the last ones, that were trained for clusters of different sizes.
        has_pseudo_labels: whether the loss contains labels and pseudo-labels of all images.
    """
    if neighbours is None or has_pseudo_labels:
        return lowest_loss_subhead
    return select_by_neighbours(network, inputs, neighbours, unbalanced)


def select_by_loss(clustering_losses: Tensor) -> int:
    """Return the subhead with the lowest clustering loss, given one summed loss per subhead, (S,)."""
    return int(clustering_losses.argmin())


def select_by_neighbours(network: nn.Module, inputs: Inputs, neighbours: NDArray[Any], unbalanced: int = 0) -> int:
    """Return the subhead with the highest `score_neighbour_information` on a sample of images.

    Args:
        network: the network with all subheads.
        inputs: inputs of the network.
        neighbours: neighbours of each input, (N, K).
        unbalanced: number of trailing subheads that were trained with a lower λ1. They fit the images more closely and
            score slightly higher even on classes of equal size, so one of them must win by a margin.
    """
    own, theirs = _assign_sample(network, inputs, neighbours)
    scores = np.array([score_neighbour_information(own[:, s], theirs[:, :, s]) for s in range(own.shape[1])])
    balanced = len(scores) - unbalanced
    best = int(scores[:balanced].argmax())
    if not unbalanced:
        return best
    best_unbalanced = balanced + int(scores[balanced:].argmax())
    margin = _UNBALANCED_MARGIN * np.log(max(2, int(max(own.max(), theirs.max())) + 1))
    return best_unbalanced if scores[best_unbalanced] > scores[best] + margin else best


def weight_subheads(network: nn.Module, inputs: Inputs, neighbours: NDArray[Any]) -> NDArray[np.float64]:
    """Return how well neighbours confirm each subhead on a sample of images: I(y; ỹ) / H(y), from 0 to 1, (S,).

    Args:
        network: the network with all subheads.
        inputs: inputs of the network.
        neighbours: neighbours of each input, (N, K).
    """
    own, theirs = _assign_sample(network, inputs, neighbours)
    subheads = range(own.shape[1])
    information = np.array([compute_neighbour_information(own[:, s], theirs[:, :, s]) for s in subheads])
    entropy = np.array([_compute_entropy(own[:, s]) for s in subheads])
    # A subhead with a single cluster has neither entropy nor information.
    weights: NDArray[np.float64] = np.clip(information / np.maximum(entropy, 1e-9), 1e-6, 1.0)
    return weights


def _assign_sample(
    network: nn.Module, inputs: Inputs, neighbours: NDArray[Any]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the clusters of evenly spaced images, (n, S), and of their neighbours, (n, K, S).

    Images that have only themselves as neighbours (see `find_neighbours`) are left out: they train the RL-head only.
    """
    anchors = np.flatnonzero(np.asarray(neighbours[:, 0]) != np.arange(len(inputs)))
    sample = anchors[np.linspace(0, len(anchors) - 1, min(_SAMPLED_IMAGES, len(anchors))).astype(np.int64)]
    near = np.asarray(neighbours[sample, :_NEIGHBOURS_PER_IMAGE], np.int64)
    needed = np.unique(np.concatenate([sample, near.ravel()]))
    clusters = assign_images(network, inputs, np.arange(len(inputs)), 0, positions=needed).by_subhead
    return clusters[np.searchsorted(needed, sample)], clusters[np.searchsorted(needed, near)]


def score_neighbour_information(own: NDArray[Any], theirs: NDArray[Any]) -> float:
    """Return the score of a subhead, I(y; ỹ) - H(y) / 2 in nats: high if neighbours have the same cluster.

    Args:
        own: clusters y of images, (N,).
        theirs: clusters ỹ of their neighbours, (N, K).
    """
    return compute_neighbour_information(own, theirs) - _compute_entropy(own) / 2


def _compute_entropy(clusters: NDArray[Any]) -> float:
    counts = np.bincount(clusters)
    fractions = counts[counts > 0] / len(clusters)
    return -float((fractions * np.log(fractions)).sum())


def compute_neighbour_information(own: NDArray[Any], theirs: NDArray[Any]) -> float:
    """Return the mutual information I(y; ỹ) between the clusters of images and of their neighbours, in nats.

    Args:
        own: clusters y of images, (N,).
        theirs: clusters ỹ of their neighbours, (N, K).
    """
    pairs = compute_contingency(np.repeat(own, theirs.shape[1]), theirs.ravel()) / theirs.size
    expected = np.outer(pairs.sum(axis=1), pairs.sum(axis=0))
    occurs = pairs > 0
    return float((pairs[occurs] * np.log(pairs[occurs] / expected[occurs])).sum())
