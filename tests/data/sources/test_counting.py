"""Number of the files of a source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crlc.data.sources.counting import SourceCount, count_source_files
from crlc.data.sources.opening import open_source
from crlc.progress import Progress


def test_count_source_files_counts_images_other_files_folders_and_bytes(tmp_path: Path):
    for name, count in (("a/1.JPG", 5), ("a/2.png", 7), ("b/c/3.webp", 11), ("b/notes.txt", 13), (".hidden/4.png", 17)):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(b"x" * count)
    source = open_source(str(tmp_path / "set"), tmp_path)
    found = count_source_files(source)
    assert found == SourceCount(images=3, others=1, folders=3, bytes=36)
    assert found.files == 4
    part = count_source_files(source, limit=2)
    assert (part.files, part.is_complete) == (2, False)
    assert count_source_files(source, limit=4).is_complete


def test_count_source_files_counts_all_items_of_an_array(tmp_path: Path):
    np.savez(tmp_path / "set.npz", images=np.zeros((5, 4, 4), np.uint8))
    found = count_source_files(open_source(str(tmp_path / "set.npz"), tmp_path))
    assert (found.images, found.others) == (5, 0)


def test_count_source_files_can_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crlc.progress._REPORT_SECONDS", 0.0)
    (tmp_path / "1.png").touch()

    class CancelledError(Exception):
        """Raised by the caller."""

    def cancel(_: Progress) -> None:
        raise CancelledError

    with pytest.raises(CancelledError):
        count_source_files(open_source(str(tmp_path), tmp_path), cancel)
