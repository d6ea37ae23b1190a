"""Pseudo-labels of CRLC-semi on frozen features: soft targets of all images, estimated from the labelled ones.

A logistic regression learns the labels from the features of the backbone and the clusters of all subheads, which
together contain more than the selected subhead alone. Then the images of a cluster vote on the label of the cluster, in
every subhead, because a few labels say little about the border between two clusters. The geometric mean of both
probabilities is the target of the cross-entropy, so that a few labels move whole clusters. The method is not from the
paper, which trains on the labelled images alone (Eq. 12).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crlc.analysis.label_classifier import LabelClassifier
from crlc.files import write_file
from crlc.model import NetworkOutput
from crlc.training.batches import LabelTargets
from crlc.training.inputs import FeatureInputs
from crlc.training.subhead_selection import weight_subheads

_NEIGHBOURS_PER_IMAGE = 10
_CHUNK_ROWS = 4_096
_LABELLED_CHUNK_ROWS = 256


def write_pseudo_labels(
    network: nn.Module, inputs: FeatureInputs, neighbours: NDArray[Any], labels: LabelTargets, file: Path
) -> None:
    """Estimate a probability distribution over the clusters for every image, and write them to a file, (N, C).

    Each image is described by its features and the probabilities of all subheads, averaged with those of its
    neighbours. Clusters without a label are represented by the images that the subheads assign most clearly.

    Args:
        network: network with the initial weights of the run, whose subheads are aligned with the label targets.
        inputs: features of all images.
        neighbours: nearest images of each image, (N, K).
        labels: labelled images and their target clusters.
        file: destination.
    """
    near = neighbours[:, :_NEIGHBOURS_PER_IMAGE]
    describe = _ImageDescriptor(network, inputs, neighbours)
    anchors = _find_anchors(describe, labels)
    positions = np.concatenate([labels.positions, anchors.positions])
    targets = np.concatenate([labels.targets, anchors.targets])
    classifier = LabelClassifier.fit(describe.describe_with_neighbours(positions, near), targets)
    # The classifier is linear: averaging its scores equals averaging the descriptions, in far less memory.
    scores = np.concatenate([describe(rows) @ classifier.weights for rows in _iterate_chunks(len(inputs))])
    predicted = np.zeros((len(inputs), describe.clusters), np.float32)
    predicted[:, classifier.classes] = classifier.convert_scores(_average_with_neighbours(scores, near))
    probabilities = np.sqrt(predicted * _average_with_neighbours(_vote_by_cluster(describe, predicted), near))
    probabilities /= np.maximum(probabilities.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    probabilities[labels.positions] = np.eye(describe.clusters, dtype=np.float32)[labels.targets]
    write_file(file, partial(np.save, arr=probabilities, allow_pickle=False))


def _average_with_neighbours(rows: NDArray[np.float32], near: NDArray[Any]) -> NDArray[np.float32]:
    """Return the mean of the row of each image and the mean row of its neighbours, (N, F)."""
    chunks = _iterate_chunks(len(rows))
    return np.concatenate([(rows[chunk] + rows[near[chunk]].mean(axis=1)) / 2 for chunk in chunks])


def _vote_by_cluster(describe: _ImageDescriptor, predicted: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return probabilities that images with the same clusters share, (N, C).

    In each subhead, the probabilities of a cluster are the mean of those predicted for its images, and those of an
    image are the mean of its clusters'. The result is the mean over the subheads, weighted as in the description.

    Args:
        describe: the images.
        predicted: probabilities of each image, (N, C).
    """
    tables = np.zeros((len(describe.subhead_weights), describe.clusters, describe.clusters), np.float32)
    for rows in _iterate_chunks(len(predicted)):
        tables += np.einsum("snc,nk->sck", describe.compute_probabilities(rows), predicted[rows], optimize=True)
    tables /= np.maximum(tables.sum(axis=2, keepdims=True), np.finfo(np.float32).tiny)
    tables *= describe.subhead_weights[:, None, None]
    votes = np.empty_like(predicted)
    for rows in _iterate_chunks(len(predicted)):
        votes[rows] = np.einsum("snc,sck->nk", describe.compute_probabilities(rows), tables, optimize=True)
    return votes


class _ImageDescriptor:
    """Describes images by their features, scaled to length one on average, and the probabilities of all subheads.

    The square roots of the probabilities of one subhead have length one. Each subhead is weighted by the information
    between neighbours, so that both parts of a description have equal weight.
    """

    def __init__(self, network: nn.Module, inputs: FeatureInputs, neighbours: NDArray[Any]) -> None:
        self._network, self._inputs = network, inputs
        information = weight_subheads(network, inputs, neighbours)
        self.subhead_weights: NDArray[np.float32] = (information / information.sum()).astype(np.float32)
        squares = sum(float((inputs.vectors[rows] ** 2).sum()) for rows in _iterate_chunks(len(inputs)))
        self._scale = np.float32(1 / max(1e-6, (squares / len(inputs)) ** 0.5))
        self.clusters = self.compute_probabilities(np.arange(1)).shape[2]

    @torch.no_grad()
    def compute_probabilities(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the probabilities of all subheads, (S, n, C), without dropout."""
        was_training = self._network.training
        self._network.eval()
        output: NetworkOutput = self._network(self._inputs.read(positions))
        self._network.train(was_training)
        q: NDArray[np.float32] = output.q.float().cpu().numpy()
        return q

    def count_images(self) -> int:
        """Return the number of images."""
        return len(self._inputs)

    def __call__(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return one row per image, (n, S * C + d)."""
        roots = np.sqrt(self.compute_probabilities(positions) * self.subhead_weights[:, None, None])
        by_image = roots.transpose(1, 0, 2).reshape(len(positions), -1)
        return np.concatenate([by_image, self._inputs.vectors[positions] * self._scale], axis=1)

    def describe_with_neighbours(self, positions: NDArray[np.int64], near: NDArray[Any]) -> NDArray[np.float32]:
        """Return the mean of the description of each image and the mean description of its neighbours."""
        parts = []
        for start in range(0, len(positions), _LABELLED_CHUNK_ROWS):
            own = positions[start : start + _LABELLED_CHUNK_ROWS]
            of_neighbours = self(near[own].ravel().astype(np.int64)).reshape(*near[own].shape, -1)
            parts.append((self(own) + of_neighbours.mean(axis=1)) / 2)
        return np.concatenate(parts)


def _find_anchors(describe: _ImageDescriptor, labels: LabelTargets) -> LabelTargets:
    """Return images that represent the clusters without a label: as many per cluster as a name has labels.

    They keep unnamed clusters apart from the named ones.
    """
    missing = np.setdiff1d(np.arange(describe.clusters), labels.targets)
    per_cluster = max(1, round(len(labels.targets) / len(np.unique(labels.targets))))
    best: dict[int, list[tuple[float, int]]] = {int(cluster): [] for cluster in missing}
    total = describe.count_images()
    for rows in _iterate_chunks(total if best else 0):
        mean = describe.compute_probabilities(rows).mean(axis=0)
        mean[np.isin(rows, labels.positions)] = 0.0
        for cluster, found in best.items():
            column = mean[:, cluster]
            top = np.argsort(-column, kind="stable")[:per_cluster]
            found += [(float(column[row]), int(rows[row])) for row in top]
            found.sort(key=lambda one: (-one[0], one[1]))
            del found[per_cluster:]
    pairs = [(position, cluster) for cluster, found in best.items() for _, position in found]
    positions, targets = np.array(pairs, np.int64).reshape(-1, 2).T
    return LabelTargets(positions, targets)


def _iterate_chunks(count: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, count, _CHUNK_ROWS):
        yield np.arange(start, min(count, start + _CHUNK_ROWS))
