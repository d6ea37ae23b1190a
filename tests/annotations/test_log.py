"""The annotation log on disk: killed and concurrent writers, full and read-only disks, damaged and foreign files."""

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

from crlc.annotations import log as annotation_log
from crlc.annotations.operations import Label
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.errors import BusyError, CrlcError, DamagedError, DiskFullError
from crlc.files import writer_lock
from tests.conftest import ROOT
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset
from tests.fixtures.mutations import replace_bytes

LABEL_SCRIPT = """
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from crlc.data.dataset import ImageDataset
from crlc.annotations.store import AnnotationStore
from crlc.annotations.operations import Label

folder, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
with AnnotationStore(ImageDataset(Path(folder))) as annotations:
    for number in range(times):
        annotations.label([number % 50 + 1], f"{name} {number}")
        print(number, flush=True)
"""


def start_labelling(dataset: ImageDataset, name: str, times: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LABEL_SCRIPT, str(dataset.folder), name, str(times)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def read_titles(dataset: ImageDataset) -> list[str]:
    """Return the titles of all operations, oldest first."""
    with AnnotationStore(dataset) as annotations:
        return [entry.title for entry in annotations.read_history(100_000)][::-1]


@pytest.fixture
def dataset(tmp_path: Path) -> ImageDataset:
    return write_handmade_dataset(tmp_path, build_numbered_paths(50))


@pytest.fixture
def labelled(dataset: ImageDataset) -> ImageDataset:
    with AnnotationStore(dataset) as annotations:
        annotations.label([1, 2], "cat")
    return dataset


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_log_keeps_all_operations_of_a_killed_process(dataset: ImageDataset):
    with start_labelling(dataset, "label", 10_000) as process:
        printed = [int(process.stdout.readline()) for _ in range(800)]
        process.send_signal(signal.SIGKILL)
        printed += [int(line) for line in process.stdout.read().split("\n") if line]
    assert process.returncode == -signal.SIGKILL
    assert 800 <= len(printed) < 10_000
    assert printed == list(range(len(printed)))
    found = read_titles(dataset)
    assert found[: len(printed)] == [f"label 1 image 'label {number}'" for number in printed]
    assert len(found) - len(printed) in (0, 1)  # one may have been written, but not printed yet
    with AnnotationStore(dataset) as annotations:
        annotations.undo()
        annotations.redo()
        annotations.label([1], "after the kill")


def test_log_keeps_all_operations_of_two_processes(dataset: ImageDataset):
    writers = [start_labelling(dataset, name, 150) for name in ("left", "right")]  # both try to create the file
    for writer in writers:
        out, _ = writer.communicate(timeout=60)
        assert (writer.returncode, len(out.split())) == (0, 150)
    found = read_titles(dataset)
    assert len(found) == 300
    for name in ("left", "right"):
        own = [title for title in found if f"'{name} " in title]
        assert own == [f"label 1 image '{name} {number}'" for number in range(150)]


def test_log_flushes_every_operation(labelled: ImageDataset):
    with AnnotationStore(labelled) as annotations:
        annotations.refresh()
        connection = annotations._log._connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_log_refresh_reads_only_new_rows(labelled: ImageDataset):
    with AnnotationStore(labelled) as window, AnnotationStore(labelled) as other:
        window.refresh()
        queries: list[str] = []
        window._log._connection.set_trace_callback(queries.append)
        other.label([3], "dog")
        window.refresh()
        reads = [query for query in queries if "content" in query]
        assert reads
        assert all("id > 1" in query for query in reads)
        assert window.refresh().get_label(3) == "dog"


def test_log_rows_cannot_be_changed(labelled: ImageDataset):
    connection = sqlite3.connect(labelled.folder / "annotations.sqlite")
    for query in ("DELETE FROM operations", "UPDATE operations SET title = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="operations"):
            connection.execute(query)
    connection.close()


def test_log_creation_leaves_no_temporary_files(labelled: ImageDataset):
    names = sorted(path.name for path in labelled.folder.iterdir() if "annotations" in path.name)
    assert names == [".annotations.sqlite.lock", "annotations.sqlite"]


# ---- disks


def fill(disk: Path) -> Path:
    """Fill a disk completely, and return the file that fills it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(4096))
    return filler


def label_without_end(annotations: AnnotationStore) -> None:
    for number in count():
        operation = Label((1,), f"{number:0>200}", (1,))
        annotations.record(lambda _, operation=operation: operation)


def test_log_on_a_full_disk_raises_and_keeps_all_operations(small_disk: Path):
    dataset = write_handmade_dataset(small_disk, build_numbered_paths(50))
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], "cat")
        filler = fill(small_disk)
        with pytest.raises(DiskFullError, match="/datasets/set/"):
            label_without_end(annotations)  # fills the free pages of the file first
        with pytest.raises(DiskFullError, match="/datasets/set/"):
            annotations.label([2], "dog")  # even the manifest cannot be opened now
        last = annotations.read_history(1)[0].title
        assert last == f"label 1 image '{annotations.refresh().get_label(1)}'"
        before = annotations.read_history(10_000)
        filler.unlink()
        annotations.label([1], "dog")
        assert annotations.read_history(10_000)[1:] == before
    assert len(read_titles(dataset)) == len(before) + 1


def test_log_that_cannot_be_created_on_a_full_disk_raises(small_disk: Path):
    dataset = write_handmade_dataset(small_disk, build_numbered_paths(50))
    filler = fill(small_disk)
    with AnnotationStore(dataset) as annotations:
        with pytest.raises(DiskFullError, match="/datasets/set/"):
            annotations.label([1], "cat")
        filler.unlink()
        annotations.label([1], "cat")


def test_log_on_a_read_only_disk_can_be_read(small_disk: Path):
    dataset = write_handmade_dataset(small_disk, build_numbered_paths(50))
    other = write_handmade_dataset(small_disk, build_numbered_paths(50), name="other")
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], "cat")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with AnnotationStore(dataset) as annotations:
        assert annotations.refresh().get_label(1) == "cat"
        with pytest.raises(CrlcError, match="annotations.sqlite"):
            annotations.label([2], "dog")
        with pytest.raises(CrlcError, match="annotations.sqlite"):
            annotations.undo()
        assert annotations.refresh().get_label(2) is None
    with AnnotationStore(other) as annotations, pytest.raises(CrlcError, match="annotations.sqlite"):
        annotations.label([2], "dog")


def test_log_raises_when_another_writer_holds_the_lock(labelled: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(annotation_log, "_LOCK_TIMEOUT_SECONDS", 0.1)
    connection = sqlite3.connect(labelled.folder / "annotations.sqlite", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with AnnotationStore(labelled) as annotations:
        with pytest.raises(BusyError, match="annotations.sqlite"):
            annotations.label([3], "dog")
        assert annotations.refresh().get_label(1) == "cat"  # reading is still possible
        connection.execute("ROLLBACK")
        annotations.label([3], "dog")
    connection.close()


def test_log_raises_when_another_process_creates_the_file(dataset: ImageDataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(annotation_log, "_LOCK_TIMEOUT_SECONDS", 0.1)
    with (
        writer_lock(dataset.folder / ".annotations.sqlite.lock", "it"),
        AnnotationStore(dataset) as annotations,
        pytest.raises(BusyError, match="'set'"),
    ):
        annotations.label([1], "cat")


# ---- damage


def assert_refused(dataset: ImageDataset, words: str) -> None:
    before = (dataset.folder / "annotations.sqlite").read_bytes()
    with AnnotationStore(dataset) as annotations:
        with pytest.raises(DamagedError, match=words):
            annotations.refresh()
        with pytest.raises(DamagedError, match=words):
            annotations.label([1], "dog")
        with pytest.raises(DamagedError, match=words):
            annotations.undo()
    assert (dataset.folder / "annotations.sqlite").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"garbage", b"garbage" * 3000])
def test_log_refuses_a_file_that_is_not_a_database(labelled: ImageDataset, content: bytes):
    (labelled.folder / "annotations.sqlite").write_bytes(content)
    assert_refused(labelled, "annotations.sqlite")


def test_log_refuses_a_damaged_page(dataset: ImageDataset):
    with AnnotationStore(dataset) as annotations:
        for number in range(200):
            annotations.label([number % 50 + 1], f"{number:0>200}")
    file = dataset.folder / "annotations.sqlite"
    content = bytearray(file.read_bytes())
    content[5 * 4096 : 6 * 4096] = bytes(4096)
    file.write_bytes(content)
    assert_refused(dataset, "annotations.sqlite")


def test_log_refuses_a_schema_that_is_not_text(labelled: ImageDataset):
    replace_bytes(labelled.folder / "annotations.sqlite", b"CREATE TABLE meta", b"CREATE T\x93BLE meta")
    assert_refused(labelled, "annotations.sqlite cannot be read")


def edit_database(dataset: ImageDataset, query: str, *values: object) -> None:
    connection = sqlite3.connect(dataset.folder / "annotations.sqlite", isolation_level=None)
    connection.execute("DROP TRIGGER operations_are_not_changed")
    connection.execute(query, values)
    connection.close()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("UPDATE meta SET value = 99 WHERE key = 'format'", "99.* 1"),
        ("UPDATE meta SET value = 'manifest' WHERE key = 'kind'", "annotations.sqlite"),
        ("UPDATE meta SET value = 'uid-x' WHERE key = 'dataset'", "'set'"),
        ("UPDATE operations SET kind = 'paint'", "row 1: .*'paint'"),
        ("UPDATE operations SET content = '{\"ids\": [1'", "row 1: "),
        ('UPDATE operations SET content = \'{"ids": [-1], "name": "x", "contents": 1}\'', "row 1: ids"),
        ("UPDATE operations SET kind = 'undo', content = '{\"operation\": 7}'", "row 1: operation 7"),
    ],
)
def test_log_refuses_foreign_and_newer_files(labelled: ImageDataset, query: str, words: str):
    edit_database(labelled, query)
    assert_refused(labelled, words)


def test_log_refuses_a_manifest_under_its_name(dataset: ImageDataset):
    (dataset.folder / "annotations.sqlite").write_bytes((dataset.folder / "manifest.sqlite").read_bytes())
    assert_refused(dataset, "annotations.sqlite")
