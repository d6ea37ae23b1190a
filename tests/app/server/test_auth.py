"""Access control: host, origin and token; and the window of the app."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from app.server.asgi import BindError, bind_socket, is_loopback, list_allowed_hosts
from app.server.window import find_window_browser, open_window
from crlc.workspace import Workspace
from tests.app.conftest import RunningApp, end_app, start_app
from tests.app.server.test_asgi import send_request
from tests.conftest import ROOT
from tests.fixtures.images import save_images

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def open_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningApp, str]]:
    """Yield a server that other computers can reach, and its token."""
    workspace = Workspace(tmp_path_factory.mktemp("open") / "workspace")
    save_images(workspace.root.parent / "set", 1)
    workspace.import_dataset(str(workspace.root.parent / "set"))
    process, url = start_app(workspace, "--host", "0.0.0.0")
    port, token = url.rsplit(":", 1)[1].split("/?token=")
    yield RunningApp(f"http://127.0.0.1:{port}", workspace, process.pid), token
    rest = end_app(process)
    assert "not encrypted" in rest
    assert rest.endswith("No training is running.\n")


def test_server_rejects_requests_without_the_token(open_app):
    app, token = open_app
    for path in (
        "/",
        "/images/set/1",
        "/galleries/set?side=99&ids=1",
        "/_stcore/health",
        "/?token=wrong",
        f"/?token={token}x",
        "/?token=",
    ):
        response = send_request(app, path)
        assert (response.status, response.headers["set-cookie"]) == (403, None), path
    assert send_request(app, "/", Cookie="crlc-token=wrong").status == 403
    assert send_request(app, "/", Cookie="crlc-token=").status == 403


def test_token_is_moved_from_the_url_to_a_cookie(open_app):
    app, token = open_app
    response = send_request(app, f"/train?token={token}&dataset=set")
    assert (response.status, response.headers["location"]) == (303, "/train?dataset=set")
    cookie, *rules = response.headers["set-cookie"].split("; ")
    assert cookie == f"crlc-token={token}"
    assert {"HttpOnly", "SameSite=lax"} <= set(rules)
    assert send_request(app, "/", Cookie=cookie).status == 200
    assert send_request(app, "/images/set/1", Cookie=f"other=1; {cookie}").headers["content-type"] == "image/png"
    assert send_request(app, f"//evil.example/?token={token}").headers["location"] == "/evil.example/"


def test_websocket_needs_the_token(open_app):
    app, token = open_app
    url = f"{app.url.replace('http', 'ws')}/_stcore/stream"
    with pytest.raises(InvalidStatus, match="403"):
        connect(url, proxy=None)
    with connect(url, additional_headers={"Cookie": f"crlc-token={token}"}, proxy=None):
        pass


def test_host_header_must_be_a_name_of_this_computer(open_app):
    app, token = open_app
    cookie = f"crlc-token={token}"
    refused = send_request(app, "/", Host="evil.example", Cookie=cookie)
    assert (refused.status, refused.headers["x-frame-options"]) == (400, "DENY")
    assert send_request(app, "/", Host=os.uname().nodename.lower(), Cookie=cookie).status == 200


def test_server_rejects_cross_origin_requests(app: RunningApp):
    port = app.url.rsplit(":", 1)[1]
    for path in ("/images/set/1", "/galleries/set?side=99&ids=1"):
        assert send_request(app, path, Origin="http://evil.example").status == 403
    assert send_request(app, "/", Origin="http://localhost:3000").status == 403
    assert send_request(app, "/", Origin=app.url).status == 200
    url = f"{app.url.replace('http', 'ws')}/_stcore/stream"
    with pytest.raises(InvalidStatus, match="403"):
        connect(url, origin=f"http://localhost:{port}", proxy=None)
    with connect(url, origin=app.url, proxy=None):
        pass


def test_bind_socket_rejects_hosts_of_other_computers():
    for host in ("198.51.100.7", "no such name", "::"):
        with pytest.raises(BindError, match=f"--host {host} is not allowed"):
            bind_socket(None, host)
    assert [is_loopback(address) for address in ("127.0.0.1", "127.8.0.1", "0.0.0.0", "10.0.0.4")] == [
        True,
        True,
        False,
        False,
    ]
    assert list_allowed_hosts("127.0.0.1") == ["127.0.0.1", "localhost"]
    assert "10.0.0.4" in list_allowed_hosts("10.0.0.4")


def test_open_window_starts_chromium_as_an_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The Chromium of this test only records its arguments."""
    pipe = tmp_path / "called"
    os.mkfifo(pipe)
    program = tmp_path / "chromium"
    program.write_text(f'#!/bin/sh\necho "$@" > {pipe}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_window_browser() == str(program)
    open_window("http://127.0.0.1:8501")
    assert pipe.read_text() == "--app=http://127.0.0.1:8501\n"


def test_open_window_falls_back_to_the_default_browser(monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert find_window_browser() is None
    open_window("http://127.0.0.1:8501")
    assert opened == ["http://127.0.0.1:8501"]


def test_app_rejects_a_workspace_that_is_a_file(tmp_path: Path):
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "app", "--no-browser", "--workspace", str(tmp_path / "file")]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("error: The workspace")
