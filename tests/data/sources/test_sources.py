"""Tests of sources: folders, zip archives, CSV files and NumPy archives."""

from __future__ import annotations

import errno
import io
import os
import pickle
import shutil
import struct
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from crlc.data.sources import UnreadableError
from crlc.data.sources.opening import open_source
from crlc.errors import SourceError
from tests.fixtures.broken_files import JPEG, PNG
from tests.fixtures.images import save_images


def list_by_path(source) -> dict[str, object]:
    return {entry.path: entry for entry in source.list_entries()}


# ---- kinds of sources


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("no/such/folder", "does not exist"),
        ("digit", "Did you mean 'digits'"),
        ("/dev/null", "neither a folder nor a file"),
        (__file__, "a single file"),
    ],
)
def test_open_source_refuses_paths_that_are_not_sources(given: str, words: str, tmp_path: Path):
    with pytest.raises(SourceError, match=words):
        open_source(given, tmp_path)


# ---- folders


def test_folder_source_lists_all_subfolders(tmp_path: Path):
    save_images(tmp_path / "a" / "b", 2)
    save_images(tmp_path, 1)
    found = list_by_path(open_source(str(tmp_path), tmp_path))
    assert set(found) == {"00000.png", "a/b/00000.png", "a/b/00001.png"}
    assert found["00000.png"].bytes == (tmp_path / "00000.png").stat().st_size


def test_folder_source_recognises_splits(tmp_path: Path):
    for split in ("train", "Testing", "unlabeled"):
        save_images(tmp_path / split / "cats", 1)
    (tmp_path / "README.txt").write_text("about")
    found = list_by_path(open_source(str(tmp_path), tmp_path))
    assert {path: entry.split for path, entry in found.items()} == {
        "train/cats/00000.png": "train",
        "Testing/cats/00000.png": "test",
        "unlabeled/cats/00000.png": "unlabelled",
        "README.txt": None,
    }


def test_folder_source_ignores_split_names_beside_other_folders(tmp_path: Path):
    for folder in ("train", "station"):
        save_images(tmp_path / folder, 1)
    assert {entry.split for entry in open_source(str(tmp_path), tmp_path).list_entries()} == {None}


@pytest.mark.slow
def test_folder_source_lists_a_hundred_thousand_files_within_a_minute(tmp_path: Path):
    for number in range(100_000):
        os.close(os.open(tmp_path / str(number), os.O_CREAT | os.O_WRONLY))
    started = time.monotonic()
    assert sum(1 for _ in open_source(str(tmp_path), tmp_path).list_entries()) == 100_000
    assert time.monotonic() - started < 60


# ---- zip archives


def make_zip(file: Path, members: dict[str, bytes]) -> str:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return str(file)


def test_zip_source_reads_in_place(tmp_path: Path):
    members = {"cats/1.jpg": JPEG, "dogs/2.png": PNG, "__MACOSX/._1.jpg": b"x", ".hidden.png": PNG, "cats/": b""}
    source = open_source(make_zip(tmp_path / "pictures.zip", members), tmp_path)
    assert set(list_by_path(source)) == {"cats/1.jpg", "dogs/2.png"}
    copy = pickle.loads(pickle.dumps(source))
    assert copy.read("cats/1.jpg") == JPEG


@pytest.mark.parametrize("name", ["../outside.png", "/etc/outside.png", "a/../../outside.png", "C:\\..\\outside.png"])
def test_zip_source_lists_members_that_point_outside_as_unreadable(tmp_path: Path, name: str):
    source = open_source(make_zip(tmp_path / "evil.zip", {name: PNG, "good.png": PNG}), tmp_path)
    problems = {path: entry.problem for path, entry in list_by_path(source).items()}
    assert problems == {name: "its name points outside the archive", "good.png": None}


def test_zip_source_lists_an_encrypted_member_as_unreadable(tmp_path: Path):
    file = Path(make_zip(tmp_path / "secret.zip", {"secret.png": PNG}))
    content = bytearray(file.read_bytes())
    for signature, flags_at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags_at] |= 1
    file.write_bytes(content)
    source = open_source(str(file), tmp_path)
    assert "encrypted" in list_by_path(source)["secret.png"].problem


def test_zip_source_checks_the_checksum(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("bad.png", PNG)
    content = bytearray((tmp_path / "bad.zip").read_bytes())
    content[60] ^= 0xFF
    (tmp_path / "bad.zip").write_bytes(content)
    with pytest.raises(UnreadableError, match="damaged inside the archive"):
        open_source(str(tmp_path / "bad.zip"), tmp_path).read("bad.png")


def test_zip_source_lists_a_huge_member_as_unreadable(tmp_path: Path):
    file = Path(make_zip(tmp_path / "huge.zip", {"huge.png": PNG}))
    content = bytearray(file.read_bytes())
    at = content.index(b"PK\x01\x02") + 24
    content[at : at + 4] = struct.pack("<I", 2**31)
    file.write_bytes(content)
    assert list_by_path(open_source(str(file), tmp_path))["huge.png"].problem == "larger than 1 GiB"


def test_zip_source_refuses_a_truncated_archive(tmp_path: Path):
    file = Path(make_zip(tmp_path / "cut.zip", {"1.png": PNG, "2.png": PNG}))
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(SourceError, match=r"cut\.zip cannot be read as a zip archive"):
        open_source(str(file), tmp_path)


# ---- CSV files


@pytest.mark.parametrize(
    "text",
    [
        "path,class,split\n1.png,cat,train\nsub/2.png,,test\n",
        "\ufeffPath;Class;Split\n1.png;cat;train\nsub/2.png;;test\n\n",
        "split\tlabel\tfilename\r\ntrain\tcat\t1.png\r\ntest\t\tsub/2.png\r\n",
    ],
)
def test_csv_source_reads_images_classes_and_splits(tmp_path: Path, text: str):
    (tmp_path / "sub").mkdir()
    (tmp_path / "1.png").write_bytes(PNG)
    (tmp_path / "sub" / "2.png").write_bytes(PNG)
    (tmp_path / "table.csv").write_text(text, encoding="utf-8", newline="")
    source = open_source(str(tmp_path / "table.csv"), tmp_path)
    assert [(entry.path, entry.class_name, entry.split) for entry in source.list_entries()] == [
        ("1.png", "cat", "train"),
        ("sub/2.png", None, "test"),
    ]
    assert source.read("sub/2.png") == PNG


def test_csv_source_accepts_absolute_and_escaped_paths(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "1.png").write_bytes(PNG)
    (tmp_path / "a\nb.png").write_bytes(PNG)
    (tmp_path / "=1.png").write_bytes(PNG)
    (tmp_path / "table.csv").write_text(f"path\n{elsewhere / '1.png'}\na\\x0ab.png\n'=1.png\ngone.png\n")
    source = open_source(str(tmp_path / "table.csv"), tmp_path)
    entries = list(source.list_entries())
    assert [entry.path for entry in entries] == [str(elsewhere / "1.png"), "a\nb.png", "=1.png", "gone.png"]
    assert [entry.problem is None for entry in entries] == [True, True, True, False]
    assert entries[3].problem == "the file does not exist"  # the same for all files, so that reasons can be counted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no column of paths.*nothing"),
        ("picture,kind\n1.png,cat\n", "picture, kind"),
        ("path\n", "names no image"),
        ("path,split\n1.png,everything\n", "line 2: split 'everything'"),
    ],
)
def test_csv_source_refuses_unusable_files(tmp_path: Path, text: str, words: str):
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(SourceError, match=words):
        list(open_source(str(tmp_path / "table.csv"), tmp_path).list_entries())


# ---- NumPy archives


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3), (6, 5, 1)])
def test_npz_source_reads_images_and_classes(tmp_path: Path, save, shape: tuple[int, ...]):
    images = np.random.default_rng(0).integers(0, 256, (4, *shape), dtype=np.uint8)
    save(tmp_path / "set.npz", images=images, labels=np.array([3, 1, 3, 0]))
    source = open_source(str(tmp_path / "set.npz"), tmp_path)
    entries = list(source.list_entries())
    assert [entry.class_name for entry in entries] == ["3", "1", "3", "0"]
    copy = pickle.loads(pickle.dumps(source))
    for index, entry in enumerate(entries):
        np.testing.assert_array_equal(copy.read(entry.path), images[index])


def test_npz_source_transposes_channels_first(tmp_path: Path):
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 8, 9), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", x=images)
    read = open_source(str(tmp_path / "set.npz"), tmp_path).read("000001")
    np.testing.assert_array_equal(read, images[1].transpose(1, 2, 0))


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (np.array([[[0, 32768, 65535]]], np.uint16), [0, 128, 255]),
        (np.array([[[0.0, 0.5, 1.0]]], np.float32), [0, 128, 255]),
        (np.array([[[False, True, True]]]), [0, 255, 255]),
    ],
)
def test_npz_source_scales_other_types_of_pixels(tmp_path: Path, images: np.ndarray, expected: list[int]):
    np.savez(tmp_path / "set.npz", images=images)
    assert open_source(str(tmp_path / "set.npz"), tmp_path).read("000000").tolist() == [expected]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"weights": np.zeros((2, 3, 3), np.uint8)}, "weights"),
        ({"images": np.zeros((2, 3), np.uint8)}, r"shape \(2, 3\)"),
        ({"images": np.zeros((2, 5, 5, 7), np.uint8)}, "1, 3 or 4 channels"),
        ({"images": np.zeros((0, 5, 5), np.uint8)}, "is empty"),
        ({"images": np.zeros((2, 5, 5), np.int64)}, "has type int64"),
        ({"images": np.full((2, 5, 5), 200.0)}, "floats from 200 to 200"),
        ({"images": np.zeros((2, 5, 5), np.uint8), "labels": np.zeros(3)}, r"\(2,\) is needed"),
        ({"images": np.array([[["x"]]], dtype=object)}, "has type object"),
        ({"images": np.zeros((2, 5, 5), np.uint8), "labels": np.array([{}, {}], dtype=object)}, "cannot be read"),
    ],
)
def test_npz_source_refuses_unusable_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], words: str):
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(SourceError, match=words):
        open_source(str(tmp_path / "set.npz"), tmp_path)


def test_npz_source_refuses_a_truncated_archive(tmp_path: Path):
    np.savez(tmp_path / "set.npz", images=np.zeros((9, 9, 9), np.uint8))
    content = (tmp_path / "set.npz").read_bytes()
    (tmp_path / "set.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(SourceError, match=r"set\.npz cannot be read as a NumPy archive"):
        open_source(str(tmp_path / "set.npz"), tmp_path)


def write_npz_with_headers(file: Path, compression: int, **shapes: tuple[int, ...]) -> None:
    """Write an archive of arrays whose headers promise `shapes` of bytes, followed by 100 bytes each."""
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, shape in shapes.items():
            stream = io.BytesIO()
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(stream, header)
            archive.writestr(f"{name}.npy", stream.getvalue() + bytes(100))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("shape", [(10**9, 4, 4), (10**18, 8, 8), (1, 10**9, 10**9), (101, 1, 1), (10, -1, -10)])
def test_npz_source_refuses_a_header_that_promises_more_than_the_file_has(
    tmp_path: Path, compression: int, shape: tuple[int, ...]
):
    write_npz_with_headers(tmp_path / "set.npz", compression, images=shape)
    with pytest.raises(SourceError, match=r"set\.npz: images\.npy"):
        open_source(str(tmp_path / "set.npz"), tmp_path)


def test_npz_source_refuses_classes_that_do_not_fit_in_memory(tmp_path: Path):
    write_npz_with_headers(tmp_path / "set.npz", zipfile.ZIP_STORED, images=(100, 1, 1), labels=(10**15,))
    with pytest.raises(SourceError, match=r"labels\.npy has the shape"):
        open_source(str(tmp_path / "set.npz"), tmp_path)


def test_npz_source_says_that_the_disk_is_full_while_it_unpacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    np.savez_compressed(tmp_path / "set.npz", images=np.zeros((9, 9, 9), np.uint8))

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", fail)
    with pytest.raises(SourceError, match=r"set\.npz cannot be unpacked: .* is full\. Free some space"):
        open_source(str(tmp_path / "set.npz"), tmp_path)


def test_npz_source_refuses_classes_with_characters_that_do_not_exist(tmp_path: Path):
    labels = np.frombuffer(b"\xff" * 8, "<U1")
    np.savez(tmp_path / "set.npz", images=np.zeros((2, 3, 3), np.uint8), labels=labels)
    with pytest.raises(SourceError, match=r"set\.npz: 'labels' cannot be read: .*numbers or texts"):
        open_source(str(tmp_path / "set.npz"), tmp_path)
