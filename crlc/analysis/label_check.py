"""Check of labels by cross-validation: how well the other labels predict each one.

Every labelled image is held out once. A classifier learns the remaining labels from the features and the clusters of
all subheads, averaged with those of neighbours, like the pseudo-labels of CRLC-semi on frozen features. For comparison,
the clusters of the run are named by the remaining labels, and predict the name of the cluster that the image is in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.label_classifier import LabelClassifier
from crlc.analysis.label_matching import match_names_to_clusters
from crlc.arrays import FloatArray, IntArray

_FOLDS = 10
_CHUNK_ROWS = 4_096
_SAMPLED_ROWS = 10_000
_NEIGHBOURS_PER_IMAGE = 10


class HeldOutPredictions(NamedTuple):
    """Predictions for labelled images that were held out. L is the number of labels."""

    by_labels: IntArray
    """Code of the label that the classifier predicts, (L,)."""

    by_clusters: IntArray
    """Code of the name of the image's cluster, -1 without a name, (L,)."""

    own_probability: FloatArray
    """Probability of the image's own label; 0 where it is the only image with this label, (L,)."""


class ImageDescriptions:
    """Describes images by their features and the clusters of all subheads, both with length one on average."""

    def __init__(self, features: NDArray[Any], by_subhead: NDArray[Any], neighbours: NDArray[Any]) -> None:
        """Measure the centre and the scale of the features on a sample.

        Args:
            features: features of all images, (N, d); may be memory-mapped.
            by_subhead: cluster of each image by each subhead, (N, S).
            neighbours: nearest images of each image, (N, K).
        """
        self._features, self._by_subhead = features, by_subhead
        self._neighbours = neighbours[:, :_NEIGHBOURS_PER_IMAGE]
        sample = np.asarray(features[:: max(1, len(features) // _SAMPLED_ROWS)], np.float32)
        self._centre = sample.mean(axis=0)
        self._scale = 1 / max(1e-6, float(((sample - self._centre) ** 2).sum(axis=1).mean()) ** 0.5)
        self._clusters = int(by_subhead.max()) + 1

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._features)

    def describe(self, rows: IntArray) -> FloatArray:
        """Return one description per image, without neighbours, (n, S * C + d)."""
        subheads = self._by_subhead.shape[1]
        one_hot = np.zeros((len(rows), subheads, self._clusters), np.float32)
        one_hot[np.arange(len(rows))[:, None], np.arange(subheads), self._by_subhead[rows]] = subheads**-0.5
        centred = (np.asarray(self._features[rows], np.float32) - self._centre) * np.float32(self._scale)
        return np.concatenate([one_hot.reshape(len(rows), -1), centred], axis=1)

    def describe_with_neighbours(self, rows: IntArray) -> FloatArray:
        """Return the mean of the description of each image and the mean description of its neighbours."""
        near = self._neighbours[rows]
        around = self.describe(near.ravel()).reshape(*near.shape, -1).mean(axis=1)
        averaged: FloatArray = ((self.describe(rows) + around) / 2).astype(np.float32, copy=False)
        return averaged

    def predict_all(self, classifier: LabelClassifier) -> FloatArray:
        """Return the probabilities of all images, (N, K)."""
        chunks = [np.arange(start, min(len(self), start + _CHUNK_ROWS)) for start in range(0, len(self), _CHUNK_ROWS)]
        # The classifier is linear: averaging its scores equals averaging the descriptions.
        scores = np.concatenate([self.describe(rows) @ classifier.weights for rows in chunks])
        averaged = [(scores[rows] + scores[self._neighbours[rows]].mean(axis=1)) / 2 for rows in chunks]
        return classifier.convert_scores(np.concatenate(averaged))


def predict_held_out_labels(
    rows: FloatArray, q: NDArray[Any], clusters: IntArray, codes: IntArray
) -> HeldOutPredictions:
    """Predict the label of each image from the labels of the others. The result is deterministic.

    Args:
        rows: one description per labelled image, (L, F).
        q: cluster probabilities of the labelled images, (L, C).
        clusters: clusters of the labelled images, (L,).
        codes: label of each image as a number from 0, (L,).
    """
    folds = np.empty(len(codes), np.int64)
    folds[np.argsort(codes, kind="stable")] = np.arange(len(codes)) % _FOLDS  # every fold has labels of all names
    by_labels, by_clusters = np.full(len(codes), -1), np.full(len(codes), -1)
    probability = np.zeros(len(codes), np.float32)
    for fold in np.unique(folds):
        tested, known = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        if not len(known):
            continue
        classifier = LabelClassifier.fit(rows[known], codes[known])
        predicted = classifier.predict(rows[tested])
        by_labels[tested] = classifier.classes[predicted.argmax(axis=1)]
        is_own = classifier.classes[None] == codes[tested][:, None]
        probability[tested] = (predicted * is_own).sum(axis=1)
        names = [f"{code:09d}" for code in codes[known].tolist()]  # in the order of the codes
        matched = match_names_to_clusters(q[known], clusters[known], names)
        name_of = dict(zip(matched.clusters.tolist(), map(int, matched.names), strict=True))
        by_clusters[tested] = [name_of.get(cluster, -1) for cluster in clusters[tested].tolist()]
    return HeldOutPredictions(by_labels, by_clusters, probability)
