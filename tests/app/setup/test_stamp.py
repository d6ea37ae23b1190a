"""Stamps of environments: written, damaged, and of earlier versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.setup.stamp import Stamp, read_stamp, write_stamp


def test_read_stamp_returns_what_was_written(tmp_path: Path):
    stamp = Stamp("3.12", ["thing>=1.0"], {"lib/thing-1.0.dist-info": {"thing.py": 16, "parts": 0}})
    write_stamp(tmp_path / "stamp.json", stamp)
    assert read_stamp(tmp_path / "stamp.json") == stamp
    assert [file.name for file in tmp_path.iterdir()] == ["stamp.json"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{ half a file",
        b"\xff",
        b"[]",
        b"{}",
        b'{"version": 2, "python": "3.12"}',
        b'{"python": "3.12", "installed": [], "packages": {"thing-1.0.dist-info": [12, ["thing.py"]]}}',
    ],
)
def test_read_stamp_returns_none_for_other_files(tmp_path: Path, content: bytes | None):
    file = tmp_path / "stamp.json"
    if content is not None:
        file.write_bytes(content)
    assert read_stamp(file) is None
