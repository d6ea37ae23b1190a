"""Imports with vectors: wrong vectors are refused before images are decoded, and no new dataset is left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crlc.data.imported_vectors import read_imported_vectors
from crlc.errors import CrlcError
from crlc.progress import Progress
from crlc.services.import_with_vectors import import_with_vectors
from crlc.workspace import Workspace
from tests.fixtures.images import save_images

ROWS = np.arange(18, dtype=np.float32).reshape(6, 3)
PATHS = [f"{number:05}.png" for number in range(6)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of six images."""
    save_images(tmp_path / "set", 6)
    return tmp_path / "set"


def save_vectors(file: Path, rows: np.ndarray, paths: list[str] | None) -> Path:
    if paths is None:
        np.save(file.with_suffix(".npy"), rows)
        return file.with_suffix(".npy")
    np.savez(file.with_suffix(".npz"), vectors=rows, paths=np.array(paths))
    return file.with_suffix(".npz")


def spoil(rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    rows[3, 1] = np.nan
    return rows


@pytest.mark.parametrize(
    ("rows", "paths", "words"),
    [
        (spoil(ROWS), None, "row 4"),
        (ROWS[:5], None, "5 vectors, but .*set has 6 images"),
        (np.concatenate([ROWS, ROWS]), None, "12 vectors, but .*set has 6 images"),
        (spoil(ROWS), PATHS, "row 4"),
        (ROWS, [f"x/{path}" for path in PATHS], "None of the 6 paths"),
        (ROWS[:5], PATHS[:5], r"no vector for 1 file of .*set: 00005\.png"),
        (ROWS, [*PATHS[:5], "./00000.png"], r"more than one vector for 00000\.png"),
    ],
)
def test_wrong_vectors_are_refused_before_images_are_decoded(
    workspace: Workspace, folder: Path, tmp_path: Path, rows: np.ndarray, paths: list[str] | None, words: str
):
    file, stages = save_vectors(tmp_path / "v", rows, paths), set[str]()

    def report(progress: Progress) -> None:
        stages.add(progress.stage)

    with pytest.raises(CrlcError, match=words):
        import_with_vectors(workspace, str(folder), file, report=report)
    assert "Decoding" not in stages
    assert workspace.list_dataset_names() == []
    workspace.import_dataset(str(folder))  # an existing dataset stays as it was, although an image was added
    save_images(folder / "more", 1)
    before = {file: file.read_bytes() for file in (workspace.root / "datasets").rglob("*") if file.is_file()}
    with pytest.raises(CrlcError):
        import_with_vectors(workspace, str(folder), file)
    assert workspace.open_dataset("set").summarize().readable == 6
    after = {file: file.read_bytes() for file in (workspace.root / "datasets").rglob("*") if file.is_file()}
    assert {file for file in before if before[file] != after.get(file)} == set()


@pytest.mark.parametrize("paths", [None, [path for path in PATHS if path != "00002.png"]])
def test_unreadable_files_need_no_vectors(workspace: Workspace, folder: Path, tmp_path: Path, paths: list[str] | None):
    content = (folder / "00002.png").read_bytes()
    (folder / "00002.png").write_bytes(content[: len(content) // 2])
    file = save_vectors(tmp_path / "v", ROWS[:5], paths)
    dataset, report, vectors = import_with_vectors(workspace, str(folder), file)
    assert (report.readable, vectors.vectors.count) == (5, 5)
    assert read_imported_vectors(dataset) == vectors.vectors


def test_vectors_that_are_refused_after_decoding_leave_no_new_dataset(
    workspace: Workspace, folder: Path, tmp_path: Path
):
    """Content after the end of a PNG file hides that the file is complete until it is decoded."""
    file = save_vectors(tmp_path / "v", ROWS[:5], None)
    (folder / "00002.png").write_bytes((folder / "00002.png").read_bytes() + bytes(9000))  # its end is not at the end
    with pytest.raises(CrlcError, match="The new dataset was removed"):
        import_with_vectors(workspace, str(folder), file)
    assert workspace.list_dataset_names() == []


def test_import_command_refuses_wrong_vectors_without_a_dataset(
    crlc, workspace: Workspace, folder: Path, tmp_path: Path
):
    file = save_vectors(tmp_path / "v", ROWS[:2], None)
    outcome = crlc("import", folder, "--vectors", file)
    assert (outcome.code, workspace.list_dataset_names()) == (1, [])
    assert "2 vectors" in outcome.err
    file = save_vectors(tmp_path / "v", ROWS, None)
    assert crlc("import", folder, "--vectors", file, "--json").json["vectors"]["count"] == 6
