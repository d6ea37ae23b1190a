"""Tests of imports that are killed, run out of disk space or find damaged files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from crlc.data.decode import decode_square
from crlc.data.importer import Importer
from crlc.data.manifest import MANIFEST_FILE, Manifest
from crlc.data.options import ImportOptions
from crlc.data.pixel_writer import get_pixel_file
from crlc.errors import BusyError, CrlcError, DamagedError, DiskFullError
from crlc.files import writer_lock
from crlc.progress import Progress
from crlc.workspace import Workspace
from tests.conftest import ROOT
from tests.fixtures.broken_files import encode
from tests.fixtures.crashing_source import CrashingSource
from tests.fixtures.images import make_image, save_images

pytestmark = pytest.mark.slow

IMPORT_AND_DIE = """
import os, signal, sys
import psutil
from pathlib import Path
from crlc.data.importer import Importer
from crlc.data.options import ImportOptions
from crlc.workspace import Workspace

root, folder, moment = sys.argv[1:]

def die(*_):
    print(*[child.pid for child in psutil.Process().children()], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def report(progress):
    if progress.stage == "Decoding":  # reported after a commit
        die()

if moment == "before a commit":
    Importer._commit = staticmethod(die)
Workspace(Path(root)).import_dataset(folder, options=ImportOptions(size=96, workers=2), report=report)
"""


@pytest.fixture
def slow_folder(tmp_path: Path) -> Path:
    """Return a folder of images that take a few seconds to decode."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    contents = [encode(make_image(seed, 1000, 1000), "PNG", compress_level=1) for seed in range(4)]
    for number in range(240):
        (folder / f"{number:04d}.png").write_bytes(contents[number % 4])
    return folder


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("moment", ["before a commit", "after a commit"])
def test_import_continues_after_a_kill_and_leaves_no_process(workspace: Workspace, slow_folder: Path, moment: str):
    command = [sys.executable, "-c", IMPORT_AND_DIE, str(workspace.root), str(slow_folder), moment]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    workers = [int(pid) for pid in killed.stdout.split()]
    assert len(workers) == 2
    orphans = [psutil.Process(pid) for pid in workers if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(orphans, timeout=60)
    assert not alive

    summary = workspace.open_dataset("pictures").summarize()
    assert not summary.complete
    assert (summary.readable > 0) == (moment == "after a commit")

    seen: list[Progress] = []
    _, report = workspace.import_dataset(str(slow_folder), report=seen.append)
    decoded = next(progress.total for progress in reversed(seen) if progress.stage == "Decoding")
    assert decoded == 240 - summary.readable
    assert report.readable == 240
    store = workspace.open_dataset("pictures").open_pixels(96)
    expected = [decode_square((slow_folder / f"{number:04d}.png").read_bytes(), 96)[1] for number in range(4)]
    np.testing.assert_array_equal(store.read(store.ids), np.stack([expected[number % 4] for number in range(240)]))


def test_import_replaces_a_killed_worker(workspace: Workspace, slow_folder: Path):
    killed: list[int] = []

    def report(progress: Progress) -> None:
        if progress.stage == "Decoding" and not killed:
            children = psutil.Process().children()
            workers = [child for child in children if "crlc.data.decode_worker" in " ".join(child.cmdline())]
            killed.append(workers[0].pid)
            workers[0].kill()

    _, outcome = workspace.import_dataset(str(slow_folder), options=ImportOptions(workers=2), report=report)
    assert killed
    assert (outcome.readable, outcome.unreadable) == (240, {})


def test_import_records_images_that_crash_the_decoder(tmp_path: Path):
    source = CrashingSource(200, crashing=(7, 8, 150))
    report = Importer(tmp_path, source, ImportOptions(workers=2)).run()
    assert report.readable == 197
    with Manifest(tmp_path) as manifest:
        reasons = {record.path: record.reason for record in manifest.read_records("status = 'unreadable'")}
    assert reasons == dict.fromkeys(("0007", "0008", "0150"), "the image decoder crashed on it")


def test_import_fails_when_workers_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(CrlcError, match="A worker process could not start"):
        Importer(tmp_path, CrashingSource(200, ()), ImportOptions(workers=2)).run()


def test_import_records_a_file_that_vanishes_after_the_listing(workspace: Workspace, tmp_path: Path):
    files = save_images(tmp_path / "pictures", 3)

    def report(progress: Progress) -> None:
        if progress.stage == "Listing":
            files[1].unlink(missing_ok=True)

    _, outcome = workspace.import_dataset(str(tmp_path / "pictures"), report=report)
    assert outcome.unreadable == {"the file does not exist": 1}


# ---- a full disk


def test_import_checks_the_disk_space_before_decoding(small_disk: Path, tmp_path: Path):
    save_images(tmp_path / "pictures", 100)
    workspace = Workspace(small_disk)
    with pytest.raises(DiskFullError, match=r"needs 2\.8 MB .* are free"):
        workspace.import_dataset(str(tmp_path / "pictures"), options=ImportOptions(size=96))
    assert workspace.list_dataset_names() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_import_continues_after_a_full_disk(small_disk: Path, tmp_path: Path, workers: int):
    folder = tmp_path / "pictures"
    save_images(folder, 128, width=300, height=300)
    filler = small_disk / "filler"

    def fill(progress: Progress) -> None:
        if progress.stage == "Decoding" and not filler.exists():
            with filler.open("wb", buffering=0) as stream:
                try:
                    while True:
                        stream.write(bytes(4096))
                except OSError:
                    pass

    workspace = Workspace(small_disk)
    options = ImportOptions(size=64, workers=workers)
    with pytest.raises(DiskFullError, match="is full"):
        workspace.import_dataset(str(folder), options=options, report=fill)
    assert filler.exists()
    filler.unlink()
    _, outcome = workspace.import_dataset(str(folder), options=options)
    assert (outcome.readable, outcome.unreadable) == (128, {})


# ---- damage


@pytest.fixture
def imported(workspace: Workspace, tmp_path: Path) -> Workspace:
    save_images(tmp_path / "pictures", 5)
    workspace.import_dataset(str(tmp_path / "pictures"))
    return workspace


def test_pixel_store_that_is_truncated_is_refused_and_repaired_by_an_import(imported: Workspace):
    dataset = imported.open_dataset("pictures")
    whole = dataset.open_pixels().read(dataset.open_pixels().ids)
    file = get_pixel_file(dataset.folder, 32)
    os.truncate(file, 32 * 32 * 3 * 3 + 100)
    with pytest.raises(DamagedError, match="Import the dataset again"):
        dataset.open_pixels()
    imported.import_dataset(dataset.info.location)
    np.testing.assert_array_equal(dataset.open_pixels().read(dataset.open_pixels().ids), whole)


@pytest.mark.parametrize("length", [0, 100, 5000])
def test_dataset_with_a_damaged_manifest_can_be_removed(imported: Workspace, length: int):
    dataset = imported.open_dataset("pictures")
    for leftover in dataset.folder.glob(MANIFEST_FILE + "-*"):
        leftover.unlink()
    file = dataset.folder / MANIFEST_FILE
    file.write_bytes(b"garbage" * 20 + file.read_bytes()[140:length])
    with pytest.raises(DamagedError, match="remove the dataset and import it again: its labels and runs are lost"):
        dataset.summarize()
    imported.remove_dataset("pictures")
    assert imported.list_dataset_names() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "cannot be read"),
        ('{"kind": "dataset"', "cannot be read"),
        ('{"kind": "run", "version": 1}', "is not a dataset file"),
        ('{"kind": "dataset", "version": 99}', "version 99; .* version 1"),
        ('{"kind": "dataset", "version": 1}', "dataset.json .* name, uid"),
        ("[1, 2]", "is not a dataset file"),
    ],
)
def test_dataset_refuses_a_foreign_description(imported: Workspace, content: str, words: str):
    (imported.open_dataset("pictures").folder / "dataset.json").write_text(content)
    with pytest.raises(DamagedError, match=words):
        imported.open_dataset("pictures")


def test_manifest_of_a_newer_version_is_refused(imported: Workspace):
    dataset = imported.open_dataset("pictures")
    with Manifest(dataset.folder) as manifest:
        manifest.connection.execute("UPDATE meta SET value = 99 WHERE key = 'format'")
    with pytest.raises(DamagedError, match="version 99; .* version 1"):
        dataset.summarize()


def test_import_refuses_a_second_writer(imported: Workspace, start_crlc, tmp_path: Path):
    with writer_lock(imported.root / "locks" / "dataset-pictures.lock", "it"):
        process = start_crlc("import", tmp_path / "pictures")
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "being written by another process" in errors
    assert len(errors.strip().splitlines()) == 1
    lock = tmp_path / "lock"
    with pytest.raises(BusyError, match="x is being written"), writer_lock(lock, "x"), writer_lock(lock, "x"):
        pass
