"""Near copies: by features and by look, against plain loops; hashes against a plain version; the odd ones."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from crlc.analysis.duplicates import duplicates_by_features, duplicates_by_look, outliers
from crlc.analysis.nearest import Neighbours
from crlc.analysis.neighbours import neighbour_graph
from crlc.analysis.perceptual_hash import Looks, hamming, join_looks, looks_of
from crlc.errors import UsageError


def pictures(count: int, size: int = 32, seed: int = 0) -> np.ndarray:
    """Smooth coloured pictures, all different."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (count, 6, 6, 3), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(one).resize((size, size), Image.Resampling.BICUBIC)) for one in coarse])


def plain_hash(pixels: np.ndarray) -> list[bool]:
    """The same rule in plain loops, for a size that 8 and 9 divide."""
    high, wide = pixels.shape[0] // 8, pixels.shape[1] // 9
    grey = pixels[..., 0] * 0.299 + pixels[..., 1] * 0.587 + pixels[..., 2] * 0.114
    fields = [
        [grey[row * high : (row + 1) * high, column * wide : (column + 1) * wide].mean() for column in range(9)]
        for row in range(8)
    ]
    return [fields[row][column + 1] > fields[row][column] + 1.5 for row in range(8) for column in range(8)]


def test_groups_by_eye():
    graph = Neighbours(
        np.array([[1, 2], [0, 2], [1, 0], [4, 0], [3, 0], [0, 1]]),
        np.array([[0.99, 0.5], [0.99, 0.985], [0.985, 0.5], [1, 0], [1, 0], [0.97, 0.1]], dtype=np.float32),
    )
    found = duplicates_by_features(graph)
    assert [group.rows.tolist() for group in found] == [[0, 1, 2], [3, 4]]
    assert [group.score for group in found] == pytest.approx([0.985, 1.0])
    assert [group.rows.tolist() for group in duplicates_by_features(graph, 1.0)] == [[3, 4]]
    assert duplicates_by_features(Neighbours(graph.positions, graph.similarity * 0)) == []
    for wrong in (0, 1.1, float("nan")):
        with pytest.raises(UsageError, match="above 0 and at most 1"):
            duplicates_by_features(graph, wrong)


@pytest.mark.parametrize("exact", [True, False])
def test_many_copies_are_one_group(exact: bool):
    random = np.random.default_rng(0)
    features = random.normal(size=(3000, 16))
    features[500:1700] = features[500]
    found = duplicates_by_features(neighbour_graph(features, 5, exact=exact), 0.999)
    assert [len(group.rows) for group in found] == [1200]
    assert found[0].rows.tolist() == list(range(500, 1700))


def test_hash_against_a_plain_version():
    pixels = pictures(20, 72)
    looks = looks_of(pixels)
    for row in range(20):
        bits = np.unpackbits(looks.hashes[row : row + 1].view(np.uint8)).astype(bool).tolist()
        assert bits == plain_hash(pixels[row])


def test_small_changes_change_few_bits_and_other_pictures_many():
    original = pictures(60, 64)
    changed = []
    for pixels in original:
        image = Image.fromarray(pixels).resize((90, 90)).filter(ImageFilter.GaussianBlur(0.6))
        saved = io.BytesIO()
        image.save(saved, "JPEG", quality=70)
        changed.append(np.asarray(Image.open(saved).resize((64, 64))))
    lighter = np.clip(original.astype(int) + 8, 0, 255).astype(np.uint8)
    first = looks_of(original)
    assert np.percentile(hamming(first.hashes, looks_of(np.stack(changed)).hashes), 90) <= 3
    assert np.percentile(hamming(first.hashes, looks_of(lighter).hashes), 90) <= 3
    others = hamming(first.hashes[:-1], first.hashes[1:])
    assert others.min() > 4


@pytest.mark.parametrize("bits", [0, 1, 2, 3, 4])
def test_near_hashes_against_all_pairs(bits: int):
    random = np.random.default_rng(0)
    hashes = random.integers(0, 2**63, 150, dtype=np.uint64)
    flips = [
        hashes[row] ^ np.bitwise_or.reduce(np.uint64(1) << random.choice(64, number, replace=False).astype(np.uint64))
        for number in range(1, 7)
        for row in range(number * 10, number * 10 + 10)
    ]
    hashes = np.concatenate([hashes, np.array(flips, dtype=np.uint64), hashes[:5]])
    looks = Looks(hashes, np.zeros((len(hashes), 8, 9), np.uint8))
    parent = list(range(len(hashes)))
    for a in range(len(hashes)):
        for b in range(a):
            if int(hashes[a] ^ hashes[b]).bit_count() <= bits:
                old, new = parent[a], parent[b]
                parent = [new if value == old else value for value in parent]
    expected = {tuple(row for row in range(len(hashes)) if parent[row] == one) for one in set(parent)}
    found = duplicates_by_look(looks, bits)
    assert {tuple(group.rows.tolist()) for group in found} == {group for group in expected if len(group) > 1}
    assert all(group.score >= 1 - bits / 64 for group in found)


def test_even_pictures_of_different_greys_are_no_copies():
    greys = np.array([0, 3, 100, 104, 250], dtype=np.uint8)
    pixels = np.broadcast_to(greys[:, None, None, None], (5, 16, 16, 3))
    looks = looks_of(pixels)
    assert len(set(looks.hashes.tolist())) == 1
    assert [group.rows.tolist() for group in duplicates_by_look(looks)] == [[0, 1], [2, 3]]


def test_copies_among_pictures_in_batches_from_a_memory_map(tmp_path: Path):
    pixels = pictures(1100, 16)
    pixels[700] = pixels[3]
    pixels[1099] = pixels[3]
    np.save(tmp_path / "pixels.npy", pixels)
    looks = looks_of(np.load(tmp_path / "pixels.npy", mmap_mode="r"))
    assert [group.rows.tolist() for group in duplicates_by_look(looks, 1)] == [[3, 700, 1099]]
    parts = join_looks([looks_of(pixels[:400]), looks_of(pixels[400:])])
    assert (parts.hashes == looks.hashes).all()
    assert duplicates_by_look(looks_of(pixels[:0])) == []


@pytest.mark.parametrize("size", [1, 8, 9, 33])
def test_any_size_of_picture(size: int):
    looks = looks_of(np.full((2, size, size, 3), 77, np.uint8))
    assert (looks.thumbnails == 77).all()
    assert [len(group.rows) for group in duplicates_by_look(looks)] == [2]


def test_wrong_questions():
    with pytest.raises(UsageError, match="0 to 4 bits"):
        duplicates_by_look(looks_of(pictures(2)), 5)
    with pytest.raises(UsageError, match=r"\(2, 4, 4\)"):
        looks_of(np.zeros((2, 4, 4), np.uint8))


def test_outliers_in_order():
    found = outliers(np.array([1, 5, 2, 5, 1.9], dtype=np.float32), most=3)
    assert [(one.row, one.score) for one in found] == [(1, 5), (3, 5), (2, 2)]
    assert outliers(np.ones(4, dtype=np.float32)) == []
