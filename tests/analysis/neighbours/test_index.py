"""Nearest-neighbour queries: against naive loops, measured recall, and queries that are not allowed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crlc.analysis.neighbours.exact import compute_recall
from crlc.analysis.neighbours.graph import build_approximate_graph, build_neighbour_graph
from crlc.analysis.neighbours.index import NeighbourIndex
from crlc.errors import UsageError
from tests.fixtures.features import CORNERS, find_naive_similarities, make_clustered_features


def test_index_accepts_a_half_precision_memory_map_larger_than_a_chunk(tmp_path: Path):
    features = make_clustered_features(40_000, dimensions=4)
    np.save(tmp_path / "z.npy", features.astype(np.float16))
    index = NeighbourIndex.build(np.load(tmp_path / "z.npy", mmap_mode="r"))
    assert index.is_exact
    widened = features.astype(np.float16).astype(np.float32)
    found = index.query(widened[[39_999, 3]], 4)
    assert found.positions[:, 0].tolist() == [39_999, 3]
    for row, similarity in zip((39_999, 3), found.similarity[:, 1:], strict=True):
        np.testing.assert_allclose(similarity, find_naive_similarities(widened, row, 3), atol=1e-5)
    assert 39_999 not in found.positions[0, 1:]


@pytest.mark.parametrize("exact", [True, False])
def test_index_answers_queries_by_vector(exact: bool):
    index = NeighbourIndex.build(CORNERS, exact=exact)
    new = index.query(np.array([[5, 0.1], [0, -1]]), 1)
    assert new.positions[0].tolist() == [0]
    assert index.query(CORNERS[[3, 0]], 3).positions.tolist() == [[3, 2, 4], [0, 1, 4]]


def test_approximate_index_measures_a_recall_of_at_least_95_percent():
    features = make_clustered_features(5000, clusters=10, dimensions=32)
    index = NeighbourIndex.build(features, exact=False)
    assert not index.is_exact
    truth, found = (
        build_neighbour_graph(features, 10, exact=True),
        build_approximate_graph(index.faiss_index, features, 10),
    )
    assert compute_recall(found, truth) >= 0.95
    assert 0.95 <= index.recall <= 1
    shared = [len(set(a) & set(b)) for a, b in zip(found.positions.tolist(), truth.positions.tolist(), strict=True)]
    assert compute_recall(found, truth) == pytest.approx(np.mean(shared) / 10, abs=1e-3)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_approximate_index_accepts_very_few_rows(count: int):
    index = NeighbourIndex.build(CORNERS[:count], exact=False)
    assert index.query(CORNERS[:1], 1).positions.tolist() == [[0]]
    if count > 1:
        assert (
            build_approximate_graph(index.faiss_index, CORNERS[:count], count - 1).positions[0].tolist()
            == [1, 2][: count - 1]
        )


def test_index_refuses_impossible_queries():
    index = NeighbourIndex.build(CORNERS)
    with pytest.raises(UsageError, match="from 1 to 5"):
        index.query(CORNERS[:1], 6)
    with pytest.raises(UsageError, match="3 dimensions .* 2 dimensions"):
        index.query(np.ones((1, 3)), 1)
