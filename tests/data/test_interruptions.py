"""Imports that are killed, run out of disk or meet damage: nothing is lost, nothing wrong is shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from crlc.config import ImportOptions
from crlc.data.decode import decode
from crlc.data.importer import Importer
from crlc.data.manifest import FILE_NAME, Manifest
from crlc.data.pixels import pixel_file
from crlc.errors import BusyError, CrlcError, DamagedError, DiskFullError
from crlc.files import writer_lock
from crlc.progress import Progress
from crlc.workspace import Workspace
from tests.conftest import ROOT
from tests.data.crashing_source import CrashingSource
from tests.hostile import encoded
from tests.pictures import picture, save_pictures

IMPORT_AND_DIE = """
import os, signal, sys
import psutil
from pathlib import Path
from crlc.config import ImportOptions
from crlc.data.manifest import Manifest
from crlc.workspace import Workspace

root, folder, moment = sys.argv[1:]

def report(progress):
    if progress.stage != "Decoding":
        return
    with Manifest(Path(root, "datasets", "pictures")) as manifest:
        if manifest.count("ok") < (1 if moment == "after a commit" else 0):
            return
    print(*[child.pid for child in psutil.Process().children()], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

Workspace(Path(root)).import_dataset(folder, options=ImportOptions(size=96, workers=2), report=report)
"""


@pytest.fixture
def slow_folder(tmp_path: Path) -> Path:
    """Images that take a few seconds to decode."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    contents = [encoded(picture(seed, 1000, 1000), "PNG", compress_level=1) for seed in range(4)]
    for number in range(240):
        (folder / f"{number:04d}.png").write_bytes(contents[number % 4])
    return folder


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("moment", ["at the first image", "after a commit"])
def test_a_killed_import_carries_on_and_leaves_no_process(workspace: Workspace, slow_folder: Path, moment: str):
    command = [sys.executable, "-c", IMPORT_AND_DIE, str(workspace.root), str(slow_folder), moment]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    workers = [int(pid) for pid in killed.stdout.split()]
    assert len(workers) == 2
    orphans = [psutil.Process(pid) for pid in workers if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(orphans, timeout=20)
    assert not alive

    summary = workspace.dataset("pictures").summary()
    assert not summary.complete
    assert (summary.readable > 0) == (moment == "after a commit")

    seen: list[Progress] = []
    _, report = workspace.import_dataset(str(slow_folder), report=seen.append)
    decoded = next(progress.total for progress in reversed(seen) if progress.stage == "Decoding")
    assert decoded == 240 - summary.readable
    assert report.readable == 240
    store = workspace.dataset("pictures").pixels(96)
    expected = [decode((slow_folder / f"{number:04d}.png").read_bytes(), 96)[1] for number in range(4)]
    np.testing.assert_array_equal(store.read(store.ids), np.stack([expected[number % 4] for number in range(240)]))


def test_a_worker_that_is_killed_is_replaced(workspace: Workspace, slow_folder: Path):
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


def test_images_that_crash_the_decoder_are_recorded_and_the_rest_is_imported(tmp_path: Path):
    source = CrashingSource(200, deadly=(7, 8, 150))
    report = Importer(tmp_path, source, ImportOptions(workers=2)).run()
    assert report.readable == 197
    with Manifest(tmp_path) as manifest:
        reasons = {record.path: record.reason for record in manifest.records("status = 'unreadable'")}
    assert reasons == dict.fromkeys(("0007", "0008", "0150"), "the image decoder crashed on it")


def test_workers_that_cannot_start_are_an_error_and_not_200_unreadable_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(CrlcError, match="A worker process could not start"):
        Importer(tmp_path, CrashingSource(200, ()), ImportOptions(workers=2)).run()


def test_a_file_that_vanishes_after_the_listing(workspace: Workspace, tmp_path: Path):
    files = save_pictures(tmp_path / "pictures", 3)

    def report(progress: Progress) -> None:
        if progress.stage == "Listing":
            files[1].unlink(missing_ok=True)

    _, outcome = workspace.import_dataset(str(tmp_path / "pictures"), report=report)
    assert outcome.unreadable == {"the file is not there any more": 1}


# ---- a full disk


def test_too_little_space_is_said_before_decoding(small_disk: Path, tmp_path: Path):
    save_pictures(tmp_path / "pictures", 100)
    workspace = Workspace(small_disk)
    with pytest.raises(DiskFullError, match="Decoding needs 3 MB .* are free"):
        workspace.import_dataset(str(tmp_path / "pictures"), options=ImportOptions(size=96))
    assert workspace.dataset_names() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_disk_that_fills_up_in_the_middle(small_disk: Path, tmp_path: Path, workers: int):
    folder = tmp_path / "pictures"
    save_pictures(folder, 128, width=300, height=300)
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
    with pytest.raises(DiskFullError, match="is full. What was finished is kept"):
        workspace.import_dataset(str(folder), options=options, report=fill)
    assert filler.exists()
    filler.unlink()
    _, outcome = workspace.import_dataset(str(folder), options=options)
    assert (outcome.readable, outcome.unreadable) == (128, {})


# ---- damage


@pytest.fixture
def imported(workspace: Workspace, tmp_path: Path) -> Workspace:
    save_pictures(tmp_path / "pictures", 5)
    workspace.import_dataset(str(tmp_path / "pictures"))
    return workspace


def test_a_truncated_pixel_store_is_noticed_and_mended(imported: Workspace):
    dataset = imported.dataset("pictures")
    whole = dataset.pixels().read(dataset.pixels().ids)
    file = pixel_file(dataset.folder, 32)
    os.truncate(file, 32 * 32 * 3 * 3 + 100)
    with pytest.raises(DamagedError, match="Import the data set again to mend it"):
        dataset.pixels()
    imported.import_dataset(dataset.info.location)
    np.testing.assert_array_equal(dataset.pixels().read(dataset.pixels().ids), whole)


@pytest.mark.parametrize("length", [0, 100, 5000])
def test_a_damaged_manifest_is_said_and_can_be_removed(imported: Workspace, length: int):
    dataset = imported.dataset("pictures")
    for leftover in dataset.folder.glob(FILE_NAME + "-*"):
        leftover.unlink()
    file = dataset.folder / FILE_NAME
    file.write_bytes(b"garbage" * 20 + file.read_bytes()[140:length])
    with pytest.raises(DamagedError, match="Remove the data set and import it again"):
        dataset.summary()
    imported.remove("pictures")
    assert imported.dataset_names() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "cannot be read"),
        ('{"kind": "dataset"', "cannot be read"),
        ('{"kind": "run", "version": 1}', "is not a dataset file"),
        ('{"kind": "dataset", "version": 99}', "format version 99; this program knows 1"),
        ('{"kind": "dataset", "version": 1}', "lacks or misspells"),
        ("[1, 2]", "is not a dataset file"),
    ],
)
def test_a_foreign_description_is_refused(imported: Workspace, content: str, words: str):
    (imported.dataset("pictures").folder / "dataset.json").write_text(content)
    with pytest.raises(DamagedError, match=words):
        imported.dataset("pictures")


def test_a_manifest_of_a_newer_program_is_refused(imported: Workspace):
    dataset = imported.dataset("pictures")
    with Manifest(dataset.folder) as manifest:
        manifest.connection.execute("UPDATE meta SET value = 99 WHERE key = 'format'")
    with pytest.raises(DamagedError, match="has format 99; this program knows 1"):
        dataset.summary()


def test_two_writers_do_not_meet(imported: Workspace, start_crlc, tmp_path: Path):
    with writer_lock(imported.root / "locks" / "dataset-pictures.lock", "it"):
        process = start_crlc("import", tmp_path / "pictures")
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "being written by another process" in errors
    assert len(errors.strip().splitlines()) == 1
    with pytest.raises(BusyError), writer_lock(tmp_path / "lock", "x"), writer_lock(tmp_path / "lock", "x"):
        pass
