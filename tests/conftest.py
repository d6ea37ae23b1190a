"""Fixtures that many tests share."""

from __future__ import annotations

import os

# Set before torch is loaded, here and in every process that tests start: the test runs are tiny, and threads that
# spin while they wait for each other take minutes on a busy computer.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from crlc.cli.main import main
from crlc.workspace import Workspace

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("CRLC_CACHE", str(ROOT / ".pytest_cache" / "crlc"))  # not the cache of the user

# The same inputs in every run, and no limits of time: a busy computer is not a failure. Tests that use a fixture with
# several inputs leave nothing in it.
_SUPPRESSED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
hypothesis_settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=_SUPPRESSED)
hypothesis_settings.load_profile("repeatable")


def pytest_configure() -> None:
    """Enable Ctrl-C: processes that a shell starts in the background ignore it, and so do their children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files with long tests first: of parallel processes, none then works alone at the end."""
    long = {item.path for item in items for name in ("browser", "slow") if item.get_closest_marker(name)}
    items.sort(key=lambda item: item.path not in long)


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace")


@pytest.fixture
def crlc(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Return a function that runs a command in this process, with the workspace of the test."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([*map(str, arguments), "--workspace", str(workspace.root)])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def start_crlc(workspace: Workspace) -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts a command in a new process, with the workspace of the test."""

    def start(*arguments: object, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        command = [*before, sys.executable, "-m", "crlc", *map(str, arguments), "--workspace", str(workspace.root)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Mount a file system of 2 MB, or of the size in the fixture parameter, and yield its folder."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={getattr(request, 'param', '2m')}", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("this system cannot mount a small disk")
    if mounted.returncode != 0:
        pytest.skip(f"mounting a small disk needs root permissions: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)
