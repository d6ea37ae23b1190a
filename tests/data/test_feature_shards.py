"""Shards of features: damaged ones are ignored, so that their images are computed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from crlc.data.feature_shards import CLASS_SCORES, RANKED_CLASSES, FeatureCache
from crlc.errors import DamagedError
from tests.fixtures.mutations import break_array_header, replace_bytes

KEYS = np.array([3, 5, 9])
FEATURES = np.arange(6, dtype=np.float16).reshape(3, 2)
OTHERS = np.array([4, 7])
CLASSES = np.ones((3, RANKED_CLASSES), CLASS_SCORES)
KEYS_FILE, FEATURES_FILE = "000001.keys.npy", "000001.npy"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a cache with two shards."""
    cache = FeatureCache(tmp_path)
    cache.add(KEYS, FEATURES, CLASSES)
    cache.add(OTHERS, FEATURES[:2] + 10, CLASSES[:2])
    return tmp_path


def store(name: str, array: np.ndarray) -> Callable[[Path], object]:
    return lambda folder: np.save(folder / name, array)


DAMAGES: list[Callable[[Path], object]] = [
    lambda folder: break_array_header(folder / KEYS_FILE),
    lambda folder: break_array_header(folder / FEATURES_FILE),
    lambda folder: replace_bytes(folder / FEATURES_FILE, b"(3, 2)", b"(2, 2)"),
    lambda folder: replace_bytes(folder / FEATURES_FILE, b"<f2", b">f2"),
    lambda folder: (folder / FEATURES_FILE).unlink(),
    lambda folder: (folder / KEYS_FILE).write_bytes(b""),
    store(KEYS_FILE, KEYS[:2]),
    store(KEYS_FILE, KEYS[:, None]),
    store(KEYS_FILE, np.array(5)),
    store(KEYS_FILE, KEYS.astype(np.float64)),
    store(FEATURES_FILE, FEATURES[0]),
    store(FEATURES_FILE, FEATURES.astype("U5")),
    store(FEATURES_FILE, FEATURES.astype(np.int64)),
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_feature_cache_ignores_a_damaged_shard_until_it_is_added_again(folder: Path, damage):
    damage(folder)
    cache = FeatureCache(folder)
    assert cache.damaged_files == [folder / KEYS_FILE]
    assert cache.contains(KEYS).tolist() == [False] * 3
    assert cache.read(OTHERS).tolist() == (FEATURES[:2] + 10).tolist()
    cache.add(KEYS, FEATURES, CLASSES)
    again = FeatureCache(folder)
    assert again.read(np.array([9, 4, 3])).tolist() == [[4, 5], [10, 11], [0, 1]]
    assert again.read_classes(KEYS)["probability"].all()


def test_feature_cache_sorts_the_keys_of_all_shards_once(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Sorting them with each shard took 10 s for the 244 shards of a million images."""
    sort, sorted_lengths = np.argsort, []
    monkeypatch.setattr(
        np, "argsort", lambda keys, **options: sorted_lengths.append(len(keys)) or sort(keys, **options)
    )
    cache = FeatureCache(folder)
    assert cache.contains(np.array([4, 5, 6])).tolist() == [True, True, False]
    assert cache.read(np.array([7, 3])).tolist() == [[12, 13], [0, 1]]
    assert sorted_lengths == [5]


def test_feature_cache_reads_an_image_in_two_shards_from_the_first(folder: Path):
    FeatureCache(folder).add(np.array([2, 5]), FEATURES[:2] + 20, CLASSES[:2])
    assert FeatureCache(folder).read(np.array([5, 2])).tolist() == [[2, 3], [20, 21]]


def test_feature_cache_without_shards_contains_nothing(tmp_path: Path):
    cache = FeatureCache(tmp_path)
    assert cache.contains(KEYS).tolist() == [False] * 3
    assert not cache.read_classes(KEYS)["probability"].any()


def test_feature_cache_ignores_features_of_another_length(folder: Path):
    np.save(folder / "000002.npy", np.zeros((2, 7), np.float16))
    cache = FeatureCache(folder)
    assert cache.contains(np.array([3, 4])).tolist() == [True, False]


def test_feature_cache_ignores_damaged_classes(folder: Path):
    break_array_header(folder / "000001.classes.npy")
    cache = FeatureCache(folder)
    assert [number for number, _ in cache.iterate_shards_without_classes()] == [0]
    assert not cache.read_classes(KEYS)["probability"].any()


@pytest.mark.parametrize("name", [KEYS_FILE, FEATURES_FILE])
@pytest.mark.parametrize("make", [Path.mkdir, lambda file: file.symlink_to(file)], ids=["folder", "link to itself"])
def test_shard_with_a_wrong_kind_of_file_is_ignored(folder: Path, name: str, make: Callable[[Path], object]):
    (folder / name).unlink()
    make(folder / name)
    cache = FeatureCache(folder)
    assert cache.damaged_files == [folder / KEYS_FILE]
    assert cache.contains(np.concatenate([KEYS, OTHERS])).tolist() == [False] * 3 + [True] * 2


def test_classes_are_not_stored_in_the_place_of_a_folder(folder: Path):
    file = folder / "000001.classes.npy"
    file.unlink()
    file.mkdir()
    cache = FeatureCache(folder)
    with pytest.raises(DamagedError, match="000001.classes.npy is a folder"):
        cache.add_classes(0, CLASSES)
    assert list(file.iterdir()) == []
