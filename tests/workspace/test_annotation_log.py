"""The log on disk: killed writers, several at once, full and read-only disks, damage and foreign files."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from crlc.data.dataset import ImageDataset
from crlc.errors import BusyError, CrlcError, DamagedError, DiskFullError
from crlc.files import writer_lock
from crlc.workspace import annotation_log
from crlc.workspace.annotations import Annotations
from crlc.workspace.operations import Label
from tests.conftest import ROOT
from tests.workspace.handmade import handmade_dataset, numbered

LABEL_AND_SAY_SO = """
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from crlc.data.dataset import ImageDataset
from crlc.workspace.annotations import Annotations
from crlc.workspace.operations import Label

folder, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Annotations(ImageDataset(Path(folder))) as annotations:
    for number in range(times):
        annotations.label([number % 50 + 1], f"{name} {number}")
        print(number, flush=True)
"""


def start(dataset: ImageDataset, name: str, times: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LABEL_AND_SAY_SO, str(dataset.folder), name, str(times)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def titles(dataset: ImageDataset) -> list[str]:
    """What was done, oldest first."""
    with Annotations(dataset) as annotations:
        return [entry.title for entry in annotations.history(100_000)][::-1]


@pytest.fixture
def dataset(tmp_path: Path) -> ImageDataset:
    return handmade_dataset(tmp_path, numbered(50))


@pytest.fixture
def labelled(dataset: ImageDataset) -> ImageDataset:
    with Annotations(dataset) as annotations:
        annotations.label([1, 2], "cat")
    return dataset


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_process_loses_nothing_that_had_returned(dataset: ImageDataset):
    with start(dataset, "label", 10_000) as process:
        said = [int(process.stdout.readline()) for _ in range(800)]
        process.send_signal(signal.SIGKILL)
        said += [int(line) for line in process.stdout.read().split("\n") if line]
    assert process.returncode == -signal.SIGKILL
    assert 800 <= len(said) < 10_000
    assert said == list(range(len(said)))
    found = titles(dataset)
    assert found[: len(said)] == [f"label 1 image 'label {number}'" for number in said]
    assert len(found) - len(said) in (0, 1)  # one may have been written, but not said yet
    with Annotations(dataset) as annotations:
        annotations.undo()
        annotations.redo()
        annotations.label([1], "goes on")


def test_two_processes_at_once_lose_nothing(dataset: ImageDataset):
    writers = [start(dataset, name, 150) for name in ("left", "right")]  # both have to make the file
    for writer in writers:
        out, _ = writer.communicate(timeout=60)
        assert (writer.returncode, len(out.split())) == (0, 150)
    found = titles(dataset)
    assert len(found) == 300
    for name in ("left", "right"):
        own = [title for title in found if f"'{name} " in title]
        assert own == [f"label 1 image '{name} {number}'" for number in range(150)]


def test_every_operation_is_flushed(labelled: ImageDataset):
    with Annotations(labelled) as annotations:
        annotations.refresh()
        connection = annotations._log._connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_window_reads_only_what_is_new(labelled: ImageDataset):
    with Annotations(labelled) as window, Annotations(labelled) as other:
        window.refresh()
        asked: list[str] = []
        window._log._connection.set_trace_callback(asked.append)
        other.label([3], "dog")
        window.refresh()
        assert [query for query in asked if "content" in query and "id > 1" in query]
        assert window.refresh().label(3) == "dog"


def test_rows_are_never_changed(labelled: ImageDataset):
    connection = sqlite3.connect(labelled.folder / "annotations.sqlite")
    for query in ("DELETE FROM operations", "UPDATE operations SET title = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="operations are only added"):
            connection.execute(query)
    connection.close()


def test_the_file_appears_whole_and_alone(labelled: ImageDataset):
    names = sorted(path.name for path in labelled.folder.iterdir() if "annotations" in path.name)
    assert names == [".annotations.sqlite.lock", "annotations.sqlite"]


# ---- disks


def fill(disk: Path) -> Path:
    """Leave no room on a disk; returns the file that takes it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(4096))
    return filler


def label_without_end(annotations: Annotations) -> None:
    for number in count():
        operation = Label((1,), f"{number:0>200}", (1,))
        annotations.record(lambda _, operation=operation: operation)


def test_a_full_disk(small_disk: Path):
    dataset = handmade_dataset(small_disk, numbered(50))
    with Annotations(dataset) as annotations:
        annotations.label([1], "cat")
        filler = fill(small_disk)
        with pytest.raises(DiskFullError, match="is full. What was finished is kept"):
            label_without_end(annotations)  # what there is of the file is filled first
        with pytest.raises(DiskFullError, match="is full"):
            annotations.label([2], "dog")  # even the manifest cannot be opened now
        last = annotations.history(1)[0].title
        assert last == f"label 1 image '{annotations.refresh().label(1)}'"
        before = annotations.history(10_000)
        filler.unlink()
        annotations.label([1], "dog")
        assert annotations.history(10_000)[1:] == before
    assert len(titles(dataset)) == len(before) + 1


def test_a_disk_too_full_for_the_file(small_disk: Path):
    dataset = handmade_dataset(small_disk, numbered(50))
    filler = fill(small_disk)
    with Annotations(dataset) as annotations:
        with pytest.raises(DiskFullError, match="is full"):
            annotations.label([1], "cat")
        filler.unlink()
        annotations.label([1], "cat")


def test_a_read_only_disk_can_be_read(small_disk: Path):
    dataset = handmade_dataset(small_disk, numbered(50))
    other = handmade_dataset(small_disk, numbered(50), name="other")
    with Annotations(dataset) as annotations:
        annotations.label([1], "cat")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with Annotations(dataset) as annotations:
        assert annotations.refresh().label(1) == "cat"
        with pytest.raises(CrlcError, match="cannot be written: it is read-only"):
            annotations.label([2], "dog")
        with pytest.raises(CrlcError, match="cannot be written: it is read-only"):
            annotations.undo()
        assert annotations.refresh().label(2) is None
    with Annotations(other) as annotations, pytest.raises(CrlcError, match="cannot be written: Read-only"):
        annotations.label([2], "dog")


def test_a_writer_that_takes_too_long(labelled: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(annotation_log, "_PATIENCE_SECONDS", 0.1)
    connection = sqlite3.connect(labelled.folder / "annotations.sqlite", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with Annotations(labelled) as annotations:
        with pytest.raises(BusyError, match="is in use by another process. Try again"):
            annotations.label([3], "dog")
        assert annotations.refresh().label(1) == "cat"  # reading goes on meanwhile
        connection.execute("ROLLBACK")
        annotations.label([3], "dog")
    connection.close()


def test_a_file_that_another_process_is_making(dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(annotation_log, "_PATIENCE_SECONDS", 0.1)
    with (
        writer_lock(dataset.folder / ".annotations.sqlite.lock", "it"),
        Annotations(dataset) as annotations,
        pytest.raises(BusyError, match="The file of labels of 'set' is being written by another process"),
    ):
        annotations.label([1], "cat")


# ---- damage


def refused(dataset: ImageDataset, words: str) -> None:
    before = (dataset.folder / "annotations.sqlite").read_bytes()
    with Annotations(dataset) as annotations:
        with pytest.raises(DamagedError, match=words):
            annotations.refresh()
        with pytest.raises(DamagedError, match=words):
            annotations.label([1], "dog")
        with pytest.raises(DamagedError, match=words):
            annotations.undo()
    assert (dataset.folder / "annotations.sqlite").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"garbage", b"garbage" * 3000])
def test_a_file_that_is_no_database(labelled: ImageDataset, content: bytes):
    (labelled.folder / "annotations.sqlite").write_bytes(content)
    refused(labelled, "(cannot be read|is not a file of labels).*move it away to begin again without labels")


def test_a_damaged_page(dataset: ImageDataset):
    with Annotations(dataset) as annotations:
        for number in range(200):
            annotations.label([number % 50 + 1], f"{number:0>200}")
    file = dataset.folder / "annotations.sqlite"
    content = bytearray(file.read_bytes())
    content[5 * 4096 : 6 * 4096] = bytes(4096)
    file.write_bytes(content)
    refused(dataset, "cannot be read .*Put back a copy of it")


def change(dataset: ImageDataset, query: str, *values: object) -> None:
    connection = sqlite3.connect(dataset.folder / "annotations.sqlite", isolation_level=None)
    connection.execute("DROP TRIGGER operations_are_not_changed")
    connection.execute(query, values)
    connection.close()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("UPDATE meta SET value = 99 WHERE key = 'format'", "has format 99; this program knows 1. Update CRLC Studio"),
        ("UPDATE meta SET value = 'manifest' WHERE key = 'kind'", "is not a file of labels"),
        ("UPDATE meta SET value = 'uid-x' WHERE key = 'dataset'", "belongs to another data set than 'set'"),
        ("UPDATE operations SET kind = 'paint'", "row 1: no readable operation of kind 'paint'"),
        ("UPDATE operations SET content = '{\"ids\": [1'", "cannot be read .row 1: "),
        ('UPDATE operations SET content = \'{"ids": [-1], "name": "x", "contents": 1}\'', "-1 is not the id"),
        ("UPDATE operations SET kind = 'undo', content = '{\"operation\": 7}'", "operation 7 cannot be undone here"),
    ],
)
def test_foreign_and_newer_files_are_refused(labelled: ImageDataset, query: str, words: str):
    change(labelled, query)
    refused(labelled, words)


def test_a_manifest_under_the_wrong_name_is_refused(dataset: ImageDataset):
    (dataset.folder / "annotations.sqlite").write_bytes((dataset.folder / "manifest.sqlite").read_bytes())
    refused(dataset, "is not a file of labels")
