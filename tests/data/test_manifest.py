"""Manifest of a dataset: in use by another process, or in a read-only folder."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from crlc.data.manifest import MANIFEST_FILE
from crlc.errors import BusyError
from crlc.workspace import Workspace
from tests.fixtures.images import save_images


def test_manifest_in_use_is_not_reported_as_damaged(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("crlc.data.manifest._BUSY_TIMEOUT_SECONDS", 0.1)
    save_images(tmp_path / "set", 2)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    other = sqlite3.connect(dataset.folder / MANIFEST_FILE, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(BusyError, match="in use by another process"):
        dataset.summarize()
    other.close()
    assert dataset.summarize().readable == 2


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_manifest_in_a_read_only_folder_can_be_read(workspace: Workspace, tmp_path: Path, start_crlc):
    save_images(tmp_path / "set", 2)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    dataset.folder.chmod(0o555)
    prefix = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()
    try:
        process = start_crlc("dataset", "set", "--json", before=prefix)
        out, errors = process.communicate(timeout=60)
    finally:
        dataset.folder.chmod(0o755)
    assert process.returncode == 0, errors
    assert '"readable": 2' in out
