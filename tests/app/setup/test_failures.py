"""Explanations of failed setups."""

from __future__ import annotations

import http.server
import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.fixtures.setup_project import Project, get_error_line, make_wheel

pytestmark = pytest.mark.slow


def test_run_app_explains_a_missing_connection(project: Project):
    online = {
        "PIP_NO_INDEX": "0",
        "PIP_FIND_LINKS": "",
        "PIP_RETRIES": "0",
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    }
    code, output = project.run(**online)
    assert code == 1
    assert "the package server cannot be reached" in get_error_line(output)
    assert project.run()[1].splitlines()[-1].startswith("APP 1.0")


@contextmanager
def serve_distrusted_index(folder: Path) -> Iterator[str]:
    """Serve with a certificate that no computer trusts, as a company network may; yield the address."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *made], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_run_app_explains_a_certificate_that_is_not_trusted(project: Project, tmp_path: Path):
    with serve_distrusted_index(tmp_path) as address:
        settings = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0", "PIP_INDEX_URL": address}
        code, output = project.run(**settings)
    assert code == 1
    assert "certificate of the package server is not trusted" in get_error_line(output)
    assert "PIP_CERT" in get_error_line(output)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no POSIX permissions")
@pytest.mark.parametrize("state", ["read-only", "a folder as stamp"])
def test_run_app_explains_a_folder_that_it_cannot_write(project: Project, state: str):
    if state == "read-only":  # root may write everywhere, but not replace a folder by a lock file
        (project.folder / ".venv.lock").mkdir()
    else:
        assert project.run()[0] == 0
        project.stamp_file.unlink()
        project.stamp_file.mkdir()
    code, output = project.run()
    assert code == 1
    assert str(project.folder / ".venv") in get_error_line(output)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not limit the size of files")
def test_explain_failure_without_any_space_for_temporary_files(tmp_path: Path):
    """On a full disk, Python finds no folder for temporary files."""
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); from pathlib import Path; "
        "from app.setup.failures import explain_failure; "
        f"print(explain_failure('[Errno 28] No space left on device', '', Path({str(tmp_path)!r})))"
    )
    outcome = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "the disk is full" in outcome.stdout, outcome.stderr


def test_run_app_explains_a_missing_package_version(project: Project):
    make_wheel(project.wheels, "3.0", "Requires-Python: >=4\n")
    project.require("thing>=3.0")
    code, output = project.run()
    assert code == 1
    version = "{}.{}".format(*sys.version_info[:2])
    assert f"a package has no version for Python {version}, which may be too old or too new" in get_error_line(output)


@pytest.mark.parametrize("small_disk", ["4m", "80m"], indirect=True, ids=["for the environment", "for the packages"])
def test_run_app_explains_a_full_disk(small_disk: Path, tmp_path: Path):
    make_wheel(tmp_path / "wheels", "1.0", ballast=100_000_000)
    code, output = Project(small_disk / "project", tmp_path / "wheels").run()
    assert code == 1
    assert "the disk is full: about 7 GB" in get_error_line(output)


def test_run_app_shows_other_failures_of_pip(project: Project):
    make_wheel(project.wheels, "3.0", "Requires-Python: >=4\n")  # ignored by pip, and mentioned in its log
    (project.wheels / "bad-1.0-py3-none-any.whl").write_bytes(b"not a wheel")
    project.require("thing>=1.0", "bad")
    code, output = project.run()
    assert code == 1
    error = get_error_line(output)
    assert "pip failed:" in error
    assert "bad" in error
    assert "too new" not in error
