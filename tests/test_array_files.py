"""Damaged .npy and .npz files: every damage is a `ValueError`, and no promised memory is allocated."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from crlc.array_files import list_texts, load_array, open_array_archive, read_array_header
from crlc.errors import AccessError, DamagedError
from crlc.files import load_required_array
from tests.fixtures.mutations import break_array_header

pytestmark = pytest.mark.filterwarnings("ignore:Reading `.npy`", "ignore::SyntaxWarning", "ignore::DeprecationWarning")
_STRUCTURAL_BYTES = b"\0 '(,>0\xff"
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def write_npy(file: Path, header: str, content: bytes = b"") -> Path:
    text = header.encode().ljust(117) + b"\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content)
    return file


@pytest.mark.parametrize("is_mapped", [False, True])
def test_load_array_returns_what_was_saved(tmp_path: Path, is_mapped: bool):
    for array in (VALUES, VALUES.T, np.zeros((0, 4), np.int64), np.array(5), np.array(["a", "é"])):
        np.save(tmp_path / "a.npy", array)
        np.testing.assert_array_equal(load_array(tmp_path / "a.npy", is_mapped=is_mapped), array)


def test_every_single_byte_change_of_a_header_gives_an_array_or_a_value_error(tmp_path: Path):
    file = tmp_path / "a.npy"
    np.save(file, VALUES)
    original = file.read_bytes()
    reasons: list[str] = []
    for position in range(len(original) - VALUES.nbytes):
        for value in range(256):
            changed = bytearray(original)
            changed[position] = value
            try:
                read_array_header(io.BytesIO(changed))
                if value in _STRUCTURAL_BYTES:
                    file.write_bytes(changed)
                    load_array(file)
            except ValueError as error:  # any other error is a failure
                reasons.append(str(error))
    assert len(reasons) > 10_000
    assert not [reason for reason in reasons if "\n" in reason]


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), ",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': [], 'fortran_order': False, 'shape': (2,), }",
        "[" * 110,
    ],
)
@pytest.mark.parametrize("is_mapped", [False, True])
def test_load_array_refuses_headers_that_do_not_fit(tmp_path: Path, header: str, is_mapped: bool):
    with pytest.raises(ValueError, match=r"."):
        load_array(write_npy(tmp_path / "a.npy", header, VALUES.tobytes()), is_mapped=is_mapped)


def test_header_with_deep_nesting_is_a_value_error():
    text = b"(" * 9000
    with pytest.raises(ValueError, match=r"."):
        read_array_header(io.BytesIO(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text))


def test_load_array_keeps_errors_of_the_system(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        load_array(tmp_path / "missing.npy")
    with pytest.raises(OSError, match="directory"):
        load_array(tmp_path)


def test_array_archive_reads_arrays_by_name(tmp_path: Path):
    np.savez_compressed(tmp_path / "a.npz", first=VALUES, second=np.arange(2))
    with open_array_archive(tmp_path / "a.npz") as archive:
        assert archive.names == ["first", "second"]
        np.testing.assert_array_equal(archive.read("first"), VALUES)
        with pytest.raises(ValueError, match="third"):
            archive.read("third")


def test_damaged_archive_is_a_value_error(tmp_path: Path):
    file = tmp_path / "a.npz"
    np.savez_compressed(file, first=VALUES)
    original = file.read_bytes()
    for position in range(len(original)):
        file.write_bytes(original[:position] + bytes([original[position] ^ 0xFF]) + original[position + 1 :])
        try:
            with open_array_archive(file) as archive:
                [archive.read(name) for name in archive.names]
        except ValueError:
            continue
    with zipfile.ZipFile(file, "w") as promising, promising.open("first.npy", "w") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 3)})
    with open_array_archive(file) as archive, pytest.raises(ValueError, match="fewer"):
        archive.read("first")


def test_list_texts_refuses_characters_that_do_not_exist():
    assert list_texts(np.array([b"a", b"\xff"])) == ["a", "�"]
    assert list_texts(np.array([1, 2])) == ["1", "2"]
    with pytest.raises(ValueError, match="."):
        list_texts(np.frombuffer(b"\xff" * 8, "<U1"))


def test_required_array_that_is_missing_or_damaged_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "ids.npy"
    with pytest.raises(DamagedError, match=r"ids.npy is missing. Train again."):
        load_required_array(file, "Train again.")
    np.save(file, VALUES)
    break_array_header(file)
    with pytest.raises(DamagedError, match=r"ids.npy cannot be read .*Train again."):
        load_required_array(file, "Train again.")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(AccessError, match="permission denied"):
        load_required_array(file, "Train again.")
