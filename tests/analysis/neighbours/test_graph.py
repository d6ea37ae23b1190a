"""Neighbour graphs: against naive loops, with copies, and for features that are not allowed."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.neighbours.exact import compute_recall
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.errors import DamagedError, UsageError
from tests.fixtures.features import CORNERS, find_naive_similarities, make_clustered_features


def test_graph_matches_similarities_computed_by_hand():
    found = build_neighbour_graph(CORNERS, 2)
    assert found.positions.tolist() == [[1, 4], [4, 0], [4, 1], [2, 4], [1, 2]]
    np.testing.assert_allclose(
        found.similarity, [[0.8, 0.6], [0.96, 0.8], [0.8, 0.6], [0, -0.6], [0.96, 0.8]], atol=1e-6
    )
    assert found.positions.dtype == np.int64
    assert found.similarity.dtype == np.float32


def test_graph_ignores_the_length_of_the_vectors():
    long = CORNERS * np.array([[3], [0.1], [7], [1], [20]], dtype=np.float64)
    assert build_neighbour_graph(long, 2).positions.tolist() == build_neighbour_graph(CORNERS, 2).positions.tolist()


@pytest.mark.parametrize("exact", [True, False])
def test_graph_matches_a_naive_loop(exact: bool):
    features = make_clustered_features(700)
    found = build_neighbour_graph(features, 7, exact=exact)
    expected = np.array([find_naive_similarities(features, row, 7) for row in range(700)])
    if exact:
        np.testing.assert_allclose(found.similarity, expected, atol=1e-5)
    among_the_true = found.similarity >= expected[:, -1:] - 1e-5
    assert np.mean(among_the_true) >= 0.95
    cosines = np.einsum("nd,nkd->nk", features, features[found.positions])
    np.testing.assert_allclose(found.similarity, cosines, atol=1e-5)


@pytest.mark.parametrize("exact", [True, False])
def test_graph_never_contains_the_row_itself_even_among_copies(exact: bool):
    features = make_clustered_features(300)
    features[40:140] = features[40]
    found = build_neighbour_graph(features, 5, exact=exact)
    assert not (found.positions == np.arange(300)[:, None]).any()
    assert ((found.positions[40:140] >= 40) & (found.positions[40:140] < 140)).all()
    np.testing.assert_allclose(found.similarity[40:140], 1, atol=1e-6)
    assert all(len(set(row)) == 5 for row in found.positions.tolist())


def test_graph_accepts_equal_rows_and_zero_rows():
    assert not (build_neighbour_graph(np.ones((9, 4)), 8).positions == np.arange(9)[:, None]).any()
    zeros = np.array([[1, 0], [0, 0], [1, 0.1]])
    np.testing.assert_allclose(build_neighbour_graph(zeros, 2).similarity[1], [0, 0])


def test_approximate_graph_finds_thousands_of_copies_in_one_cell():
    features = make_clustered_features(6000, dimensions=8)
    features[1000:4500] = features[1000]
    found = build_neighbour_graph(features, 4, exact=False)
    truth = build_neighbour_graph(features, 4, exact=True)
    assert not (found.positions == np.arange(6000)[:, None]).any()
    assert all(len(set(row)) == 4 for row in found.positions.tolist())
    np.testing.assert_allclose(found.similarity[1000:4500], 1, atol=1e-6)
    assert compute_recall(found, truth) >= 0.95


def test_approximate_graph_is_deterministic():
    features = make_clustered_features(3000)
    first, second = (build_neighbour_graph(features, 5, exact=False) for _ in range(2))
    assert (first.positions == second.positions).all()
    assert (first.similarity == second.similarity).all()


@pytest.mark.parametrize("k", [0, -1, 5, 6])
def test_graph_refuses_an_impossible_k(k: int):
    with pytest.raises(UsageError, match=f"k={k} .* from 1 to 4"):
        build_neighbour_graph(CORNERS, k)


def test_graph_refuses_empty_and_non_finite_features():
    with pytest.raises(UsageError, match=r"\(0, 3\)"):
        build_neighbour_graph(np.empty((0, 3)), 1)
    with pytest.raises(DamagedError, match="not finite .* row 2"):
        build_neighbour_graph(np.where(np.arange(5)[:, None] == 2, np.nan, CORNERS), 1)
