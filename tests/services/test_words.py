"""Words of datasets: class probabilities computed with the features, or later for features of an earlier version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from crlc.data.feature_shards import FeatureCache
from crlc.services.features import compute_default_features
from crlc.services.words import (
    ImageWords,
    compute_missing_class_scores,
    has_missing_class_scores,
    read_class_scores,
)
from crlc.workspace import Workspace
from tests.fixtures.class_scores import make_class_scores, write_class_scores
from tests.fixtures.handmade_dataset import build_numbered_paths, change_content, write_handmade_dataset
from tests.fixtures.images import save_images


def test_default_features_come_with_classes_and_those_of_an_earlier_version_are_completed(
    workspace: Workspace, tmp_path: Path
):
    from crlc.data.options import ImportOptions

    save_images(tmp_path / "photos", 6)
    dataset, _ = workspace.import_dataset(str(tmp_path / "photos"), options=ImportOptions(size=160))
    ids = np.arange(1, 7)
    assert read_class_scores(dataset, ids) is None
    compute_default_features(dataset, engine="torch", device=torch.device("cpu"))
    found = read_class_scores(dataset, ids)
    assert found is not None
    assert not has_missing_class_scores(dataset)
    probabilities = found["probability"].astype(np.float64)
    assert (np.diff(probabilities, axis=1) <= 0).all()
    assert ((probabilities[:, 0] > 0) & (probabilities.sum(axis=1) <= 1.01)).all()

    (stored,) = dataset.folder.glob("features/*/*.classes.npy")
    stored.unlink()  # an earlier version did not write it
    assert has_missing_class_scores(dataset)
    assert read_class_scores(dataset, ids) is None
    compute_missing_class_scores(dataset)
    np.testing.assert_array_equal(read_class_scores(dataset, ids), found)

    stored.write_bytes(b"damaged")
    assert read_class_scores(dataset, ids) is None
    compute_default_features(dataset, engine="torch", device=torch.device("cpu"))  # nothing is missing
    compute_missing_class_scores(dataset)
    np.testing.assert_array_equal(read_class_scores(dataset, ids), found)


def test_class_scores_of_changed_and_unknown_images_are_zero(workspace: Workspace):
    dataset = write_handmade_dataset(workspace.root, build_numbered_paths(5))
    write_class_scores(dataset)
    change_content(dataset, 2)
    found = read_class_scores(dataset, np.array([1, 2, 5]))
    assert found is not None
    assert found["probability"][:, 0].tolist() == [0.5, 0, 0]


def test_class_scores_ignore_features_of_a_backbone_without_classifier(workspace: Workspace):
    dataset = write_handmade_dataset(workspace.root, build_numbered_paths(2))
    FeatureCache(dataset.folder / "features" / "other@2-32").add(np.array([1 << 20 | 1]), np.ones((1, 3), np.float16))
    assert read_class_scores(dataset, np.array([1, 2])) is None
    assert not has_missing_class_scores(dataset)


def test_suggested_names_are_everyday_words_with_lift():
    scores = make_class_scores(
        [
            {"golden retriever": 0.5, "beagle": 0.25},
            {"dalmatian": 0.75},
            {"alp": 0.75, "volcano": 0.125},
            {"alp": 0.5, "volcano": 0.25, "dalmatian": 0.125},
        ]
    )
    words = ImageWords(scores, np.array([0, 0, 2, 2]))
    names = words.by_cluster
    assert list(names) == [0, 2]  # cluster 1 is empty
    assert names[0][0].name == "dog"
    assert names[0][0].coverage == 0.75
    assert names[0][0].lift == 0.75 / 0.40625
    assert names[2][0].name in ("alp", "mountain")
    assert all(len(found) <= 3 for found in names.values())
    assert words.suggest_for(np.array([0, 1])) == names[0]  # a selection of the whole cluster
    assert words.suggest_for(np.array([1]))[0].name == "dalmatian"
    assert words.suggest_for(np.empty(0, np.int64)) == []
    assert words.list_best_classes(2, 5) == [("alp", 0.75), ("volcano", 0.125)]
