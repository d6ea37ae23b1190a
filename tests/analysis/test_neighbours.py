"""Nearest images: against a naive loop, with copies, across chunks, and what cannot be asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crlc.analysis.index_file import load_index, save_index
from crlc.analysis.nearest import recall_of
from crlc.analysis.neighbours import NeighbourIndex, neighbour_graph
from crlc.errors import DamagedError, DiskFullError, UsageError

CORNERS = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0], [0.6, 0.8]], dtype=np.float32)
"""Cosines by hand: 0 and 1: 0.8, 0 and 4: 0.6, 1 and 4: 0.96, 1 and 2: 0.6, 4 and 2: 0.8."""


def clustered(count: int, clusters: int = 6, dimensions: int = 16, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, dimensions))
    points = centres[random.integers(clusters, size=count)] + 0.5 * random.normal(size=(count, dimensions))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def naive_neighbours(features: np.ndarray, row: int, k: int) -> list[float]:
    lengths = np.linalg.norm(features, axis=1)
    cosines = [
        float(features[row] @ features[other] / (lengths[row] * lengths[other]))
        for other in range(len(features))
        if other != row
    ]
    return sorted(cosines, reverse=True)[:k]


def test_neighbours_by_hand():
    found = neighbour_graph(CORNERS, 2)
    assert found.positions.tolist() == [[1, 4], [4, 0], [4, 1], [2, 4], [1, 2]]
    np.testing.assert_allclose(
        found.similarity, [[0.8, 0.6], [0.96, 0.8], [0.8, 0.6], [0, -0.6], [0.96, 0.8]], atol=1e-6
    )
    assert found.positions.dtype == np.int64
    assert found.similarity.dtype == np.float32


def test_length_of_the_vectors_does_not_matter():
    long = CORNERS * np.array([[3], [0.1], [7], [1], [20]], dtype=np.float64)
    assert neighbour_graph(long, 2).positions.tolist() == neighbour_graph(CORNERS, 2).positions.tolist()


@pytest.mark.parametrize("exact", [True, False])
def test_against_a_naive_loop(exact: bool):
    features = clustered(700)
    found = neighbour_graph(features, 7, exact=exact)
    expected = np.array([naive_neighbours(features, row, 7) for row in range(700)])
    if exact:
        np.testing.assert_allclose(found.similarity, expected, atol=1e-5)
    among_the_true = found.similarity >= expected[:, -1:] - 1e-5
    assert np.mean(among_the_true) >= 0.95
    cosines = np.einsum("nd,nkd->nk", features, features[found.positions])
    np.testing.assert_allclose(found.similarity, cosines, atol=1e-5)


@pytest.mark.parametrize("exact", [True, False])
def test_a_row_is_not_its_own_neighbour_even_among_many_copies(exact: bool):
    features = clustered(300)
    features[40:140] = features[40]
    found = neighbour_graph(features, 5, exact=exact)
    assert not (found.positions == np.arange(300)[:, None]).any()
    assert ((found.positions[40:140] >= 40) & (found.positions[40:140] < 140)).all()
    np.testing.assert_allclose(found.similarity[40:140], 1, atol=1e-6)
    assert all(len(set(row)) == 5 for row in found.positions.tolist())


def test_all_rows_alike_and_rows_of_zeros():
    assert not (neighbour_graph(np.ones((9, 4)), 8).positions == np.arange(9)[:, None]).any()
    zeros = np.array([[1, 0], [0, 0], [1, 0.1]])
    np.testing.assert_allclose(neighbour_graph(zeros, 2).similarity[1], [0, 0])


def test_memory_map_of_half_precision_larger_than_a_chunk(tmp_path: Path):
    features = clustered(40_000, dimensions=4)
    np.save(tmp_path / "z.npy", features.astype(np.float16))
    index = NeighbourIndex.build(np.load(tmp_path / "z.npy", mmap_mode="r"))
    assert index.exact
    found = index.query_rows(np.array([39_999, 3]), 3)
    widened = features.astype(np.float16).astype(np.float32)
    for row, similarity in zip((39_999, 3), found.similarity, strict=True):
        np.testing.assert_allclose(similarity, naive_neighbours(widened, row, 3), atol=1e-5)
    assert 39_999 not in found.positions[0]


@pytest.mark.parametrize("exact", [True, False])
def test_queries(exact: bool):
    index = NeighbourIndex.build(CORNERS, exact=exact)
    new = index.query(np.array([[5, 0.1], [0, -1]]), 1)
    assert new.positions[0].tolist() == [0]
    assert index.query_rows(np.array([3, 0]), 2).positions.tolist() == [[2, 4], [1, 4]]
    # The mean of 0 and 2 points between 1 and 4; both rows given are left out.
    middle = index.query_mean(np.array([0, 2, 2]), 3)
    assert sorted(middle.positions[0, :2].tolist()) == [1, 4]
    assert middle.positions[0, 2] == 3
    np.testing.assert_allclose(middle.similarity[0], np.array([1.4, 1.4, -1]) / np.sqrt(2), atol=1e-6)


def test_recall_is_measured_and_good_enough():
    features = clustered(5000, clusters=10, dimensions=32)
    index = NeighbourIndex.build(features, exact=False)
    assert not index.exact
    truth, found = neighbour_graph(features, 10, exact=True), index.graph(10)
    assert recall_of(found, truth) >= 0.95
    assert 0.95 <= index.recall <= 1
    shared = [len(set(a) & set(b)) for a, b in zip(found.positions.tolist(), truth.positions.tolist(), strict=True)]
    assert recall_of(found, truth) == pytest.approx(np.mean(shared) / 10, abs=1e-3)


@pytest.mark.parametrize("k", [0, -1, 5, 6])
def test_impossible_k(k: int):
    with pytest.raises(UsageError, match=f"k = {k} .* from 1 to 4"):
        neighbour_graph(CORNERS, k)
    with pytest.raises(UsageError, match="from 1 to 4"):
        NeighbourIndex.build(CORNERS).query_rows(np.array([0]), k)


def test_other_impossible_questions():
    index = NeighbourIndex.build(CORNERS)
    with pytest.raises(UsageError, match="k = 4 .* from 1 to 3"):
        index.query_mean(np.array([0, 1]), 4)
    with pytest.raises(UsageError, match="from 1 to 5"):
        index.query(CORNERS[:1], 6)
    with pytest.raises(UsageError, match="3 dimensions .* holds 2"):
        index.query(np.ones((1, 3)), 1)
    with pytest.raises(UsageError, match="there are 5 rows"):
        index.query_rows(np.array([5]), 1)
    with pytest.raises(UsageError, match="at least one"):
        index.query_mean(np.array([], dtype=np.int64), 1)
    with pytest.raises(UsageError, match="shape"):
        neighbour_graph(np.empty((0, 3)), 1)
    with pytest.raises(DamagedError, match="not finite .* row 2"):
        neighbour_graph(np.where(np.arange(5)[:, None] == 2, np.nan, CORNERS), 1)


def test_saved_index_answers_the_same(tmp_path: Path):
    features = clustered(400)
    index = NeighbourIndex.build(features, exact=False)
    save_index(index, tmp_path / "z.index")
    again = load_index(tmp_path / "z.index", features)
    assert again.recall == index.recall
    assert again.graph(5).positions.tolist() == index.graph(5).positions.tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["z.index", "z.index.json"]
    with pytest.raises(UsageError, match="nothing to save"):
        save_index(NeighbourIndex.build(features), tmp_path / "other")


def test_damaged_index_files(tmp_path: Path):
    features, path = clustered(400), tmp_path / "z.index"
    with pytest.raises(DamagedError, match="missing"):
        load_index(path, features)
    save_index(NeighbourIndex.build(features, exact=False), path)
    with pytest.raises(DamagedError, match="other features"):
        load_index(path, features[::-1])
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with pytest.raises(DamagedError, match="not as long"):
        load_index(path, features)
    path.write_bytes(b"x" * len(whole))
    with pytest.raises(DamagedError, match="cannot be read"):
        load_index(path, features)


def test_thousands_of_copies_in_one_cell():
    features = clustered(6000, dimensions=8)
    features[1000:4500] = features[1000]
    found = neighbour_graph(features, 4, exact=False)
    truth = neighbour_graph(features, 4, exact=True)
    assert not (found.positions == np.arange(6000)[:, None]).any()
    assert all(len(set(row)) == 4 for row in found.positions.tolist())
    np.testing.assert_allclose(found.similarity[1000:4500], 1, atol=1e-6)
    assert recall_of(found, truth) >= 0.95


def test_the_approximate_graph_is_the_same_every_time():
    features = clustered(3000)
    first, second = (neighbour_graph(features, 5, exact=False) for _ in range(2))
    assert (first.positions == second.positions).all()
    assert (first.similarity == second.similarity).all()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_very_few_rows(count: int):
    index = NeighbourIndex.build(CORNERS[:count], exact=False)
    assert index.query(CORNERS[:1], 1).positions.tolist() == [[0]]
    if count > 1:
        assert index.graph(count - 1).positions[0].tolist() == [1, 2][: count - 1]


@pytest.mark.parametrize("small_disk", ["100k"], indirect=True)
def test_full_disk_keeps_the_old_index(small_disk: Path):
    save_index(NeighbourIndex.build(clustered(100), exact=False), small_disk / "z.index")
    before = (small_disk / "z.index").read_bytes()
    with pytest.raises(DiskFullError):
        save_index(NeighbourIndex.build(clustered(3000), exact=False), small_disk / "z.index")
    assert (small_disk / "z.index").read_bytes() == before
    load_index(small_disk / "z.index", clustered(100))
    assert len(list(small_disk.iterdir())) == 2
