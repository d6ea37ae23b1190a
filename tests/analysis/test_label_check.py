"""Cross-validation of labels: against explicit leave-out loops, and descriptions by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from crlc.analysis.label_check import ImageDescriptions, predict_held_out_labels
from crlc.analysis.label_classifier import LabelClassifier

GROUPS = np.arange(30) % 3
ROWS = (2 * np.eye(4)[GROUPS] + np.random.default_rng(0).normal(0, 1.2, (30, 4))).astype(np.float32)


@pytest.mark.parametrize("classes", [2, 3])
def test_label_classifier_equals_scikit_learn(classes: int):
    codes = np.minimum(GROUPS, classes - 1) + 4
    model = LogisticRegression(C=5.0, max_iter=2000).fit(ROWS, codes)
    found = LabelClassifier.fit(ROWS, codes)
    np.testing.assert_array_equal(found.classes, model.classes_)
    np.testing.assert_allclose(found.predict(ROWS), model.predict_proba(ROWS), atol=1e-4)


def test_label_classifier_of_one_class_always_predicts_it():
    found = LabelClassifier.fit(ROWS, np.full(30, 7))
    np.testing.assert_array_equal(found.classes, [7])
    np.testing.assert_array_equal(found.predict(ROWS), np.ones((30, 1)))


def test_held_out_labels_are_predicted_from_the_other_folds_only():
    q = np.eye(3)[GROUPS]
    found = predict_held_out_labels(ROWS, q, GROUPS, GROUPS)
    order = np.argsort(GROUPS, kind="stable")
    for place, image in enumerate(order):
        tested = [other for at, other in enumerate(order) if at % 10 == place % 10]
        known = np.setdiff1d(np.arange(30), tested)
        model = LogisticRegression(C=5.0, max_iter=2000).fit(ROWS[known], GROUPS[known])
        expected = model.predict_proba(ROWS[image : image + 1])[0]
        assert found.by_labels[image] == expected.argmax()
        assert found.own_probability[image] == pytest.approx(expected[GROUPS[image]], abs=1e-3)
    np.testing.assert_array_equal(found.by_clusters, GROUPS)


def test_held_out_label_of_a_single_image_is_never_predicted():
    codes = np.array([0, 0, 0, 0, 1])
    rows = np.array([[0.0], [0.1], [0.2], [0.3], [9.0]], np.float32)
    found = predict_held_out_labels(rows, np.eye(2)[codes], codes, codes)
    assert found.by_labels[4] == 0
    assert found.own_probability[4] == 0
    assert found.by_clusters[4] != 1


def test_image_descriptions_hold_clusters_and_scaled_features_with_neighbours():
    features = np.array([[3.0, 1.0], [1.0, 1.0]])
    images = ImageDescriptions(features, np.array([[0, 1], [0, 0]]), np.array([[1], [0]]))
    root = 0.5**0.5
    own = np.array([[root, 0, 0, root, 1, 0], [root, 0, root, 0, -1, 0]])
    np.testing.assert_allclose(images.describe(np.arange(2)), own, atol=1e-6)
    np.testing.assert_allclose(images.describe_with_neighbours(np.arange(2)), [own.mean(axis=0)] * 2, atol=1e-6)
    classifier = LabelClassifier(np.eye(6, 2, k=-4).astype(np.float32), np.zeros(2, np.float32), np.arange(2))
    np.testing.assert_allclose(images.predict_all(classifier), [[0.5, 0.5]] * 2, atol=1e-6)
