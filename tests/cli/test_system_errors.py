"""Commands when memory is short, or the user has no permission for the workspace: one line with the real reason."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from crlc.errors import UsageError
from crlc.runs.state import RunState
from crlc.workspace import Workspace
from tests.conftest import ROOT
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset
from tests.fixtures.handmade_run import write_handmade_result
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import import_tiny_dataset, write_exploration, write_tiny_run

_MEMORY_LIMIT_BYTES = 400_000_000  # enough for NumPy, not for torch
_FILE_LIMIT_BYTES = 200_000  # enough for a manifest, not for the pixels of 20 images


def run_limited_crlc(kind: str, limit: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process with a limit of the system, such as `RLIMIT_AS`."""
    program = (
        f"import resource; resource.setrlimit(resource.{kind}, ({limit}, {limit})); "
        "from crlc.cli.main import main; raise SystemExit(main())"
    )
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_cli_reports_too_little_memory_to_load_a_library(workspace: Workspace):
    write_handmade_dataset(workspace.root, build_numbered_paths(6))
    outcome = run_limited_crlc("RLIMIT_AS", _MEMORY_LIMIT_BYTES, "count", "set", "--workspace", str(workspace.root))
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("error: There is not enough memory to load a library")
    assert outcome.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not limit the size of files")
def test_cli_reports_a_disk_without_large_files(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 20, width=64, height=64)
    command = ("import", str(tmp_path / "set"), "--workspace", str(workspace.root))
    outcome = run_limited_crlc("RLIMIT_FSIZE", _FILE_LIMIT_BYTES, *command)
    assert outcome.returncode == 1
    error = outcome.stderr.splitlines()[-1]
    assert error.startswith(f"error: {workspace.root}")
    assert "FAT32" in error
    assert error.endswith("(Options: --workspace.)")


def test_workspace_below_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(UsageError, match="is below .*file, which is a file"):
        Workspace(tmp_path / "file" / "deep" / "workspace")


def get_user_prefix() -> tuple[str, ...]:
    """Return the command that starts another one without the permissions of root, if root runs the tests."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("running as root, and setpriv, which drops root's permissions, is not installed")
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def run_while_locked(start_crlc, path: Path, *commands: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return output and errors of commands that run while nobody has permissions for a file or folder."""
    prefix, mode = get_user_prefix(), path.stat().st_mode
    path.chmod(0)
    try:
        processes = [start_crlc(*arguments, before=prefix) for arguments in commands]
        return [process.communicate(timeout=120) for process in processes]
    finally:
        path.chmod(mode)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no POSIX permissions")
def test_cli_lists_the_other_runs_beside_one_that_may_not_be_read(start_crlc, workspace: Workspace):
    dataset = write_handmade_dataset(workspace.root, build_numbered_paths(6))
    for name in ("run-1", "run-2"):
        write_handmade_result(workspace, dataset, name=name).write_status(RunState.FINISHED)
    locked = workspace.root / "runs" / "run-1"
    runs, shown, refused = run_while_locked(start_crlc, locked, ("runs",), ("quality", "run-2"), ("show", "run-1"))
    assert "unreadable" in runs[0]
    assert "finished" in runs[0]
    assert re.search(r"runs/run-1/\S+ cannot be used: permission denied", runs[0])
    assert "error" not in shown[1]
    assert "permission denied" in refused[1]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no POSIX permissions")
def test_cli_lists_the_other_datasets_beside_one_that_may_not_be_read(start_crlc, workspace: Workspace, tmp_path: Path):
    for name in ("first", "second"):
        import_tiny_dataset(workspace, tmp_path / name)
    ((listed, error),) = run_while_locked(start_crlc, workspace.root / "datasets" / "first", ("datasets",))
    assert error == ""
    assert "unreadable" in listed
    assert "12" in next(line for line in listed.splitlines() if line.startswith("second"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_cli_says_that_the_disk_is_full_for_a_list_of_problems(crlc, workspace: Workspace):
    write_handmade_dataset(workspace.root, build_numbered_paths(6))
    outcome = crlc("dataset", "set", "--problems", "/dev/full")
    assert outcome.code == 1
    assert outcome.err.startswith("error: /dev/full cannot be written: the disk is full.")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no POSIX permissions")
def test_cli_names_permissions_of_single_files(start_crlc, workspace: Workspace, tmp_path: Path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    write_exploration(dataset)
    folder = dataset.folder / "exploration"
    ((_, error),) = run_while_locked(
        start_crlc, folder, ("export", "set", "--provisional", "--out", str(tmp_path / "out.csv"))
    )
    assert f"{folder}" in error
    assert "permission denied" in error
    run = write_tiny_run(workspace, dataset)
    run.write_ids(np.arange(1, 13))
    run.write_status(RunState.STOPPED)
    ((_, error),) = run_while_locked(start_crlc, run.path / "ids.npy", ("resume", run.id))
    assert f"{run.path / 'ids.npy'} cannot be read: permission denied" in error
    assert "Delete" not in error


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no POSIX permissions")
@pytest.mark.parametrize("locked", ["", "datasets", "runs", "datasets/set/dataset.json", "runs/run-1/run.json"])
def test_cli_names_permissions_in_the_workspace_of_another_user(start_crlc, workspace: Workspace, locked: str):
    prefix = get_user_prefix()
    dataset = write_handmade_dataset(workspace.root, build_numbered_paths(6))
    write_handmade_result(workspace, dataset).write_status(RunState.FINISHED)
    path = workspace.root / locked
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        processes = [start_crlc(*arguments, before=prefix) for arguments in (("quality", "run-1"), ("dataset", "set"))]
        outcomes = [(process.communicate(timeout=120)[1], process.returncode) for process in processes]
    finally:
        path.chmod(mode)
    failed = [error for error, code in outcomes if code != 0]
    assert failed
    for error in failed:
        assert f"{path}" in error
        assert "permission denied" in error
        assert "Check the permissions" in error
        assert "Delete" not in error
        assert "Remove" not in error
