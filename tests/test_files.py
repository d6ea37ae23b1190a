"""Tests of atomic file writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from crlc.files import write_json


def test_write_json_that_fails_leaves_the_file_unchanged(tmp_path: Path):
    file = tmp_path / "state.json"
    write_json(file, {"kind": "x", "value": 1})
    with pytest.raises(TypeError):
        write_json(file, {"kind": "x", "value": object()})
    assert '"value": 1' in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
