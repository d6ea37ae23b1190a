"""Tests of built-in datasets, with small files in the formats of torchvision in place of downloads."""

from __future__ import annotations

import hashlib
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torchvision import datasets

from crlc.data.sources.builtin import CIFAR20_CLASSES
from crlc.data.sources.opening import open_source
from crlc.errors import SourceError

RANDOM = np.random.default_rng(0)


def test_digits_need_no_download(tmp_path: Path):
    source = open_source("digits", tmp_path)
    entries = list(source.list_entries())
    assert len(entries) == 1797
    assert [entry.class_name for entry in entries[:10]] == list("0123456789")
    first = source.read(entries[0].path)
    # scikit-learn's first digit begins 0 0 5 13 9 1 0 0, in sixteenths of white.
    assert first[0].tolist() == [0, 0, 80, 207, 143, 16, 0, 0]


@pytest.mark.parametrize("name", ["cifar10", "cifar20", "cifar100", "mnist", "fashion-mnist", "stl10"])
def test_open_builtin_fails_offline_without_a_copy(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # no server listens on this port
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match=f"{name} is not in .* could not be downloaded"):
        open_source(name, tmp_path)


def compute_md5(file: Path) -> str:
    return hashlib.md5(file.read_bytes()).hexdigest()


def write_cifar_copy(
    root: Path, kind: Any, monkeypatch: pytest.MonkeyPatch, labels_key: str, names: dict[str, list[str]]
):
    """Write a copy of CIFAR with 5 images per file, and make torchvision accept its checksums."""
    folder = root / kind.base_folder
    folder.mkdir(parents=True)
    pixels, labels = {}, {}
    for attribute in ("train_list", "test_list"):
        listed = []
        for number, (file_name, _) in enumerate(getattr(kind, attribute)):
            data = RANDOM.integers(0, 256, (5, 3072), dtype=np.uint8)
            target = [(number + index) % 10 for index in range(5)]
            (folder / file_name).write_bytes(pickle.dumps({"data": data, labels_key: target}))
            listed.append([file_name, compute_md5(folder / file_name)])
            pixels.setdefault(attribute, []).append(data)
            labels.setdefault(attribute, []).extend(target)
        monkeypatch.setattr(kind, attribute, listed)
    (folder / kind.meta["filename"]).write_bytes(pickle.dumps(names))
    monkeypatch.setattr(kind, "meta", {**kind.meta, "md5": compute_md5(folder / kind.meta["filename"])})
    return {key: np.concatenate(parts).reshape(-1, 3, 32, 32) for key, parts in pixels.items()}, labels


def test_cifar10_is_read_from_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = [f"class {number}" for number in range(10)]
    pixels, labels = write_cifar_copy(tmp_path, datasets.CIFAR10, monkeypatch, "labels", {"label_names": names})
    source = open_source("cifar10", tmp_path)
    entries = list(source.list_entries())
    assert [entry.split for entry in entries] == ["train"] * 25 + ["test"] * 5
    assert [entry.class_name for entry in entries[:25]] == [names[label] for label in labels["train_list"]]
    np.testing.assert_array_equal(source.read("test/000003"), pixels["test_list"][3].transpose(1, 2, 0))


def test_cifar20_has_the_superclasses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fine = sorted(name for names in CIFAR20_CLASSES.values() for name in names.split())
    assert len(fine) == len(set(fine)) == 100
    _, labels = write_cifar_copy(tmp_path, datasets.CIFAR100, monkeypatch, "fine_labels", {"fine_label_names": fine})
    coarse = [entry.class_name for entry in open_source("cifar20", tmp_path).list_entries()]
    expected = [fine[label] for label in labels["train_list"] + labels["test_list"]]
    assert all(name in CIFAR20_CLASSES[superclass].split() for name, superclass in zip(expected, coarse, strict=True))
    assert coarse[0] == "fruit and vegetables"  # apple


@pytest.mark.parametrize(("name", "kind"), [("mnist", datasets.MNIST), ("fashion-mnist", datasets.FashionMNIST)])
def test_mnist_is_read_from_a_copy(name: str, kind: Any, tmp_path: Path):
    folder = tmp_path / kind.__name__ / "raw"
    folder.mkdir(parents=True)
    images = {}
    for prefix, split, count in (("train", "train", 7), ("t10k", "test", 3)):
        images[split] = RANDOM.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + images[split].tobytes())
        labels = bytes(range(count))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)
    source = open_source(name, tmp_path)
    entries = list(source.list_entries())
    first_names = {"mnist": ["0", "1"], "fashion-mnist": ["T-shirt/top", "Trouser"]}[name]
    assert [entry.class_name for entry in entries[:2]] == first_names
    assert len(entries) == 10
    np.testing.assert_array_equal(source.read("test/000002"), images["test"][2])


def test_stl10_marks_its_unlabelled_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / datasets.STL10.base_folder
    folder.mkdir()
    images = {}
    for stem, count in (("train", 3), ("test", 2), ("unlabeled", 4)):
        images[stem] = RANDOM.integers(0, 256, (count, 3, 96, 96), dtype=np.uint8)
        (folder / f"{stem}_X.bin").write_bytes(images[stem].tobytes())
        (folder / f"{stem}_y.bin").write_bytes(bytes(range(1, count + 1)))
    (folder / "class_names.txt").write_text("\n".join(["airplane", "bird", "car"]))
    for attribute in ("train_list", "test_list"):
        listed = [
            [name, compute_md5(folder / name)]
            for name, _ in getattr(datasets.STL10, attribute)
            if (folder / name).exists()
        ]
        monkeypatch.setattr(datasets.STL10, attribute, listed)
    source = open_source("stl10", tmp_path)
    entries = list(source.list_entries())
    assert [entry.split for entry in entries] == ["train"] * 3 + ["test"] * 2 + ["unlabelled"] * 4
    assert [entry.class_name for entry in entries] == ["airplane", "bird", "car", "airplane", "bird", *[None] * 4]
    # torchvision reads the same file as channels, rows, columns.
    theirs = datasets.STL10(str(tmp_path), split="test").data[1]
    np.testing.assert_array_equal(source.read("test/000001"), theirs.transpose(1, 2, 0))
