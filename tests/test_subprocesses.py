"""Tests of child processes and their identities."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from crlc.subprocesses import ProcessId, python_environment, read_last_line, start_python

LIMIT_SECONDS = 60


def run_script(script: str) -> str:
    """Return the output of a child process that runs this script."""
    with start_python(["-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        return process.communicate(timeout=LIMIT_SECONDS)[0].decode().strip()


def test_start_python_finds_this_package_and_no_module_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run_script("import json, crlc; print(crlc.__name__)") == "crlc"


def test_python_environment_defaults_do_not_override_variables_of_the_user(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CRLC_TEST_SET", "user")
    found = python_environment({"CRLC_TEST_SET": "default", "CRLC_TEST_UNSET": "default"})
    assert (found["CRLC_TEST_SET"], found["CRLC_TEST_UNSET"]) == ("user", "default")


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has sessions")
def test_start_python_creates_a_new_session():
    assert run_script("import os; print(os.getsid(0) == os.getpid())") == "True"


def test_read_last_line_skips_empty_lines_and_decodes_utf8():
    with tempfile.TemporaryFile() as log:
        assert read_last_line(log) == ""
        log.write("first\nletzte Zeile: ü\n\n".encode())
        assert read_last_line(log) == "letzte Zeile: ü"


@pytest.mark.parametrize("method", [ProcessId.terminate, ProcessId.kill])
def test_process_id_ends_its_process_only(method):
    with start_python(["-c", "input()"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        identity = ProcessId.from_pid(process.pid)
        reused = replace(identity, started=identity.started - 60)
        assert identity.is_alive()
        assert not reused.is_alive()
        method(reused)
        assert process.poll() is None
        method(identity)
        process.wait(LIMIT_SECONDS)
    assert not identity.is_alive()
    method(identity)
