"""Near duplicates by features and by hashes, against naive loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crlc.analysis.near_duplicates import find_duplicates_by_features, find_duplicates_by_hash
from crlc.analysis.neighbours.exact import Neighbours
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.analysis.perceptual_hash import PerceptualHashes, concatenate_hashes, hash_images
from crlc.errors import UsageError
from tests.fixtures.images import make_smooth_images


def test_duplicates_by_features_match_groups_by_hand():
    graph = Neighbours(
        np.array([[1, 2], [0, 2], [1, 0], [4, 0], [3, 0], [0, 1]]),
        np.array([[0.99, 0.5], [0.99, 0.985], [0.985, 0.5], [1, 0], [1, 0], [0.97, 0.1]], dtype=np.float32),
    )
    found = find_duplicates_by_features(graph)
    assert [group.rows.tolist() for group in found] == [[0, 1, 2], [3, 4]]
    assert [group.score for group in found] == pytest.approx([0.985, 1.0])
    assert [group.rows.tolist() for group in find_duplicates_by_features(graph, 1.0)] == [[3, 4]]
    assert find_duplicates_by_features(Neighbours(graph.positions, graph.similarity * 0)) == []
    for wrong in (0, 1.1, float("nan")):
        with pytest.raises(UsageError, match="above 0 and at most 1"):
            find_duplicates_by_features(graph, wrong)


@pytest.mark.parametrize("exact", [True, False])
def test_duplicates_by_features_group_many_copies(exact: bool):
    random = np.random.default_rng(0)
    features = random.normal(size=(3000, 16))
    features[500:1700] = features[500]
    found = find_duplicates_by_features(build_neighbour_graph(features, 5, exact=exact), 0.999)
    assert [len(group.rows) for group in found] == [1200]
    assert found[0].rows.tolist() == list(range(500, 1700))


@pytest.mark.parametrize("bits", [0, 1, 2, 3, 4])
def test_duplicates_by_hash_match_all_pairs(bits: int):
    random = np.random.default_rng(0)
    hashes = random.integers(0, 2**63, 150, dtype=np.uint64)
    flips = [
        hashes[row] ^ np.bitwise_or.reduce(np.uint64(1) << random.choice(64, number, replace=False).astype(np.uint64))
        for number in range(1, 7)
        for row in range(number * 10, number * 10 + 10)
    ]
    hashes = np.concatenate([hashes, np.array(flips, dtype=np.uint64), hashes[:5]])
    given = PerceptualHashes(hashes, np.zeros((len(hashes), 8, 9), np.uint8))
    parent = list(range(len(hashes)))
    for a in range(len(hashes)):
        for b in range(a):
            if int(hashes[a] ^ hashes[b]).bit_count() <= bits:
                old, new = parent[a], parent[b]
                parent = [new if value == old else value for value in parent]
    expected = {tuple(row for row in range(len(hashes)) if parent[row] == one) for one in set(parent)}
    found = find_duplicates_by_hash(given, bits)
    assert {tuple(group.rows.tolist()) for group in found} == {group for group in expected if len(group) > 1}
    assert all(group.score >= 1 - bits / 64 for group in found)


def test_duplicates_by_hash_distinguish_flat_images_by_brightness():
    greys = np.array([0, 3, 100, 104, 250], dtype=np.uint8)
    pixels = np.broadcast_to(greys[:, None, None, None], (5, 16, 16, 3))
    hashes = hash_images(pixels)
    assert len(set(hashes.hashes.tolist())) == 1
    assert [group.rows.tolist() for group in find_duplicates_by_hash(hashes)] == [[0, 1], [2, 3]]


def test_duplicates_by_hash_accept_a_memory_map_of_several_batches(tmp_path: Path):
    pixels = make_smooth_images(1100, 16)
    pixels[700] = pixels[3]
    pixels[1099] = pixels[3]
    np.save(tmp_path / "pixels.npy", pixels)
    hashes = hash_images(np.load(tmp_path / "pixels.npy", mmap_mode="r"))
    assert [group.rows.tolist() for group in find_duplicates_by_hash(hashes, 1)] == [[3, 700, 1099]]
    parts = concatenate_hashes([hash_images(pixels[:400]), hash_images(pixels[400:])])
    assert (parts.hashes == hashes.hashes).all()
    assert find_duplicates_by_hash(hash_images(pixels[:0])) == []


@pytest.mark.parametrize("size", [1, 8, 9, 33])
def test_duplicates_by_hash_accept_any_image_size(size: int):
    hashes = hash_images(np.full((2, size, size, 3), 77, np.uint8))
    assert (hashes.thumbnails == 77).all()
    assert [len(group.rows) for group in find_duplicates_by_hash(hashes)] == [2]


def test_duplicates_by_hash_refuse_too_many_bits():
    with pytest.raises(UsageError, match="5 .* 0 to 4"):
        find_duplicates_by_hash(hash_images(make_smooth_images(2)), 5)
