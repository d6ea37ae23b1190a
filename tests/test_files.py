"""Tests of atomic writing, and of reading files that may be damaged or away."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest
from numpy.typing import NDArray

from crlc.errors import DamagedError, UnavailableError
from crlc.files import load_required_array, read_json, write_json
from crlc.runs.metrics_log import MetricsLog

_ADVICE = "Delete it."


class _Entries(TypedDict):
    pass


def read_advised_json(file: Path) -> dict[str, Any]:
    return read_json(file, "x", 1, _ADVICE, _Entries)


def read_advised_array(file: Path) -> NDArray[Any]:
    return load_required_array(file, _ADVICE)


def test_write_json_that_fails_leaves_the_file_unchanged(tmp_path: Path):
    file = tmp_path / "state.json"
    write_json(file, {"kind": "x", "value": 1})
    with pytest.raises(TypeError):
        write_json(file, {"kind": "x", "value": object()})
    assert '"value": 1' in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows reports a missing permission")
def test_write_json_names_a_folder_in_the_place_of_the_file(tmp_path: Path):
    (tmp_path / "state.json" / "content").mkdir(parents=True)
    with pytest.raises(DamagedError, match=r"state\.json is a folder, but must be a file"):
        write_json(tmp_path / "state.json", {"kind": "x"})
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/mem, whose first bytes give an I/O error")
@pytest.mark.parametrize("read", [read_advised_json, read_advised_array])
def test_file_on_a_disk_that_does_not_answer_is_not_called_damaged(tmp_path: Path, read: Callable[[Path], object]):
    """The advice for a damaged file is often to delete it."""
    file = tmp_path / "file"
    file.symlink_to("/proc/self/mem")
    with pytest.raises(UnavailableError) as caught:
        read(file)
    assert str(file) in caught.value.message
    assert _ADVICE not in str(caught.value)


def read_metrics(file: Path) -> object:
    return list(MetricsLog(file).read())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("read", [read_advised_json, read_advised_array, read_metrics])
def test_a_pipe_in_the_place_of_a_file_is_not_read(tmp_path: Path, read: Callable[[Path], object]):
    """Reading it would wait for ever, and with it the page that lists all runs."""
    file = tmp_path / "file"
    os.mkfifo(file)
    with pytest.raises(DamagedError, match=r"file cannot be read \(it is not a regular file"):
        read(file)
