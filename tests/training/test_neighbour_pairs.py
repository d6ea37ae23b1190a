"""Neighbour pairs of the second stage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crlc.analysis.neighbours import graph
from crlc.training.neighbour_pairs import compute_neighbour_purity, find_neighbours

NEIGHBOURS = np.array([[1, 2], [0, 2], [3, 0], [2, 1]])


@pytest.mark.parametrize(
    ("classes", "purity"),
    [([0, 0, 1, 1], 0.5), ([0, 0, 1, -1], 0.4), ([-1, -1, -1, -1], None)],  # 0.4: of five pairs with known classes
)
def test_neighbour_purity_counts_pairs_with_known_classes(classes: list[int], purity: float | None):
    assert compute_neighbour_purity(NEIGHBOURS, np.array(classes)) == purity


def test_neighbour_purity_is_none_without_classes():
    assert compute_neighbour_purity(NEIGHBOURS, None) is None


def test_find_neighbours_seeks_only_among_the_images_that_l_cluster_is_for(tmp_path: Path):
    angles = np.array([0.0, 0.01, 0.3, 0.31, 1.0])
    features = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = find_neighbours(features, 50, tmp_path / "neighbours.npy", among=np.array([0, 2, 4]))
    assert found.tolist() == [[2, 4], [1, 1], [0, 4], [3, 3], [2, 0]]  # 1 and 3 have only themselves
    classes = np.array([0, 0, 0, 1, 1])
    assert compute_neighbour_purity(found, classes) == pytest.approx(2 / 6)


def test_find_neighbours_writes_the_nearest_by_cosine_similarity(tmp_path: Path):
    angles = np.array([0.0, 0.1, 0.3, 2.0])
    features = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32) * [[1], [5], [2], [3]]
    found = find_neighbours(features.astype(np.float32), 10, tmp_path / "neighbours.npy")
    assert found.tolist() == [[1, 2, 3], [0, 2, 3], [1, 0, 3], [2, 1, 0]]  # only three others
    np.testing.assert_array_equal(np.load(tmp_path / "neighbours.npy"), found)


def test_find_neighbours_is_exact_among_many_images_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse_index(*_: object) -> None:
        raise AssertionError("an approximate graph")

    monkeypatch.setattr(graph, "EXACT_GRAPH_LIMIT", 100)
    monkeypatch.setattr(graph, "build_ivf_index", refuse_index)
    features = np.random.default_rng(0).normal(size=(500, 32)).astype(np.float32)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -2)
    expected = np.sort(np.argpartition(-similarity, 10, axis=1)[:, :10], axis=1)
    found = find_neighbours(features, 10, tmp_path / "exact.npy", exact=True)
    np.testing.assert_array_equal(np.sort(found, axis=1), expected)
    with pytest.raises(AssertionError, match="approximate"):
        find_neighbours(features, 10, tmp_path / "approximate.npy")
