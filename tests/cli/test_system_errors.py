"""Commands when memory is short, or the user has no permission for the workspace: one line with the real reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crlc.errors import UsageError
from crlc.runs.state import RunState
from crlc.workspace import Workspace
from tests.conftest import ROOT
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset
from tests.fixtures.handmade_run import write_handmade_result

_MEMORY_LIMIT_BYTES = 400_000_000  # enough for NumPy, not for torch
_LIMITED_CRLC = (
    f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY_LIMIT_BYTES}, {_MEMORY_LIMIT_BYTES})); "
    "from crlc.cli.main import main; raise SystemExit(main())"
)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_cli_reports_too_little_memory_to_load_a_library(workspace: Workspace):
    write_handmade_dataset(workspace.root, build_numbered_paths(6))
    command = [sys.executable, "-c", _LIMITED_CRLC, "count", "set", "--workspace", str(workspace.root)]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("error: There is not enough memory to load a library")
    assert outcome.stderr.count("\n") == 1


def test_workspace_below_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(UsageError, match="is below .*file, which is a file"):
        Workspace(tmp_path / "file" / "deep" / "workspace")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no POSIX permissions")
@pytest.mark.parametrize("locked", ["", "datasets", "runs", "datasets/set/dataset.json", "runs/run-1/run.json"])
def test_cli_names_permissions_in_the_workspace_of_another_user(start_crlc, workspace: Workspace, locked: str):
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("running as root, and setpriv, which drops root's permissions, is not installed")
        prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
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
