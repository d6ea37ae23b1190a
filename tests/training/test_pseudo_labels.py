"""Pseudo-labels of CRLC-semi: against scikit-learn on explicit descriptions, unnamed clusters, and exact resuming."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from crlc.model import NetworkOutput
from crlc.training.batches import LabelTargets
from crlc.training.inputs import FeatureInputs
from crlc.training.pseudo_labels import write_pseudo_labels
from crlc.training.subhead_selection import weight_subheads
from tests.fixtures.training_runs import FROZEN, SemiChild, make_colour_images, read_records, train

COUNT, CLUSTERS, SUBHEADS, NEIGHBOURS = 60, 3, 2, 12


class LinearSubheads(nn.Module):
    """Network whose subheads are linear functions of the features."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, vectors: Tensor) -> NetworkOutput:
        return NetworkOutput(vectors, vectors, torch.einsum("nd,sdc->snc", vectors, self.weights))


def make_example() -> tuple[LinearSubheads, FeatureInputs, np.ndarray, np.ndarray]:
    """Return a network, features of three groups, their nearest neighbours, and the group of each image."""
    generator = np.random.default_rng(0)
    groups = np.arange(COUNT) % CLUSTERS
    vectors = (3 * np.eye(5)[groups] + generator.normal(0, 0.8, (COUNT, 5))).astype(np.float32)
    distances = ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2) + np.diag(np.full(COUNT, np.inf))
    weights = torch.from_numpy(generator.normal(0, 1, (SUBHEADS, 5, CLUSTERS)).astype(np.float32))
    weights[0, :3] += 2 * torch.eye(3)
    weights[1, :3] += torch.eye(3)
    inputs = FeatureInputs(vectors, dropout=0.5, device=torch.device("cpu"))
    return LinearSubheads(weights), inputs, np.argsort(distances, axis=1)[:, :NEIGHBOURS], groups


def test_pseudo_labels_equal_a_classifier_and_the_votes_of_clusters_by_loops(tmp_path: Path):
    network, inputs, neighbours, groups = make_example()
    labels = LabelTargets(np.arange(6), groups[:6])
    write_pseudo_labels(network, inputs, neighbours, labels, tmp_path / "pseudo.npy")

    with torch.no_grad():
        q = network(torch.from_numpy(inputs.vectors)).q.numpy()
    weights = weight_subheads(network, inputs, neighbours)
    blocks = [np.sqrt(q[subhead] * weights[subhead] / weights.sum()) for subhead in range(SUBHEADS)]
    scale = np.sqrt((inputs.vectors**2).sum(axis=1).mean())
    rows = np.concatenate([*blocks, inputs.vectors / scale], axis=1)
    smooth = np.stack([(rows[image] + rows[neighbours[image, :10]].mean(axis=0)) / 2 for image in range(COUNT)])
    predicted = LogisticRegression(C=5.0, max_iter=2000).fit(smooth[:6], groups[:6]).predict_proba(smooth)
    votes = np.zeros((COUNT, CLUSTERS))
    for subhead in range(SUBHEADS):
        for cluster in range(CLUSTERS):
            members = q[subhead, :, cluster]
            of_cluster = sum(members[image] * predicted[image] for image in range(COUNT)) / members.sum()
            for image in range(COUNT):
                votes[image] += weights[subhead] / weights.sum() * members[image] * of_cluster
    smooth_votes = np.stack([(votes[image] + votes[neighbours[image, :10]].mean(axis=0)) / 2 for image in range(COUNT)])
    expected = np.sqrt(predicted * smooth_votes)
    expected /= expected.sum(axis=1, keepdims=True)
    expected[:6] = np.eye(CLUSTERS)[groups[:6]]
    np.testing.assert_allclose(np.load(tmp_path / "pseudo.npy"), expected, atol=2e-3)


def test_pseudo_labels_keep_clusters_without_a_label(tmp_path: Path):
    network, inputs, neighbours, groups = make_example()
    labelled = np.flatnonzero(groups != 2)[:6]
    write_pseudo_labels(network, inputs, neighbours, LabelTargets(labelled, groups[labelled]), tmp_path / "pseudo.npy")
    found = np.load(tmp_path / "pseudo.npy")
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert (found.argmax(axis=1) == groups).mean() > 0.9
    np.testing.assert_array_equal(found[labelled], np.eye(CLUSTERS)[groups[labelled]])


def test_pseudo_labels_of_two_clusters_are_probabilities_of_both(tmp_path: Path):
    network, inputs, neighbours, groups = make_example()
    network.weights = network.weights[:, :, :2]
    targets = np.minimum(groups[:4], 1)
    write_pseudo_labels(network, inputs, neighbours, LabelTargets(np.arange(4), targets), tmp_path / "pseudo.npy")
    found = np.load(tmp_path / "pseudo.npy")
    assert found.shape == (COUNT, 2)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert (found[groups == 0, 0] > 0.5).mean() > 0.9


def test_semi_run_on_frozen_features_follows_labels_and_resumes_exactly(tmp_path: Path):
    images = make_colour_images()
    assert images.classes is not None
    parent = train(tmp_path / "parent", FROZEN.replace(epochs=1), images)  # too short for good clusters
    child = SemiChild(parent, images, [f"colour {number}" for number in images.classes[:12]])
    assert child.settings.clustering_loss.pseudo_label_weight > 0
    whole = child.create(tmp_path / "whole")
    whole.run()
    by_name = child.named.get_names_by_output()

    def score(clusters: np.ndarray) -> float:
        """Return the fraction of images in the cluster with the name of their class."""
        predicted = np.array([by_name.get(cluster, "") for cluster in clusters.tolist()])
        return float((predicted == np.array([f"colour {number}" for number in images.classes])).mean())

    after = score(whole.folder.open_result()[0]["cluster"])
    assert after > 0.85
    assert after > score(parent.folder.open_result()[0]["cluster"]) + 0.05
    assert not (tmp_path / "whole" / "pseudo-labels.npy").exists()
    child.cut_and_resume(tmp_path / "cut", steps=17)
    assert read_records(tmp_path / "cut") == read_records(tmp_path / "whole")
