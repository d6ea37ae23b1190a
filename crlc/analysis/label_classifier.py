"""Logistic regression that predicts the label of an image from a description of it."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.arrays import FloatArray, IntArray

_INVERSE_REGULARIZATION = 5.0
_MAX_ITERATIONS = 2_000


class LabelClassifier(NamedTuple):
    """Linear classifier. K is the number of classes, F the length of a description."""

    weights: FloatArray
    """(F, K)."""

    bias: FloatArray
    """(K,)."""

    classes: IntArray
    """Class of each column, ascending, (K,)."""

    @classmethod
    def fit(cls, rows: FloatArray, classes: IntArray) -> LabelClassifier:
        """Learn the classes of labelled images.

        Args:
            rows: one description per image, (L, F).
            classes: class of each image, (L,).
        """
        from sklearn.linear_model import LogisticRegression

        known = np.unique(classes).astype(np.int64)
        if len(known) == 1:  # nothing to learn: every image has this class
            return cls(np.zeros((rows.shape[1], 1), np.float32), np.zeros(1, np.float32), known)
        with warnings.catch_warnings():
            # One label per name is common here; scikit-learn would ask whether the numbers are a regression target.
            warnings.filterwarnings("ignore", message="The number of unique classes")
            model = LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=_MAX_ITERATIONS).fit(rows, classes)
        weights, bias = model.coef_.T, model.intercept_
        if weights.shape[1] == 1:  # two classes: scikit-learn stores the score of the second one only
            weights, bias = np.concatenate([0 * weights, weights], axis=1), np.array([0.0, bias[0]])
        return cls(weights.astype(np.float32), bias.astype(np.float32), known)

    def convert_scores(self, scores: NDArray[np.float32]) -> FloatArray:
        """Return the probabilities of the classes, (N, K), given the products of descriptions and weights."""
        shifted = scores + self.bias
        exponentials = np.exp(shifted - shifted.max(axis=1, keepdims=True))
        normalized = exponentials / exponentials.sum(axis=1, keepdims=True)
        probabilities: FloatArray = normalized.astype(np.float32, copy=False)
        return probabilities

    def predict(self, rows: FloatArray) -> FloatArray:
        """Return the probabilities of the classes, (N, K)."""
        return self.convert_scores(rows @ self.weights)
