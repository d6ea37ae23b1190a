"""Who is let in: no other web page, and from other computers only who has the token."""

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

from app.server import PortTakenError, is_private, listen, reachable_as
from app.window import open_window, window_browser
from crlc.workspace import Workspace
from tests.app.conftest import RunningApp, end_app, start_app
from tests.app.test_server import ask
from tests.conftest import ROOT
from tests.pictures import save_pictures


@pytest.fixture(scope="module")
def open_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningApp, str]]:
    """A server that other computers can reach, and its token."""
    workspace = Workspace(tmp_path_factory.mktemp("open") / "workspace")
    save_pictures(workspace.root.parent / "set", 1)
    workspace.import_dataset(str(workspace.root.parent / "set"))
    process, url = start_app(workspace, "--host", "0.0.0.0")
    port, token = url.rsplit(":", 1)[1].split("/?token=")
    yield RunningApp(f"http://127.0.0.1:{port}", workspace, process.pid), token
    rest = end_app(process)
    assert "it is not encrypted" in rest
    assert rest.endswith("No training is running.\n")


def test_without_the_token_there_is_nothing(open_app):
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
        answer = ask(app, path)
        assert (answer.status, answer.headers["set-cookie"]) == (403, None), path
    assert ask(app, "/", Cookie="crlc-token=wrong").status == 403
    assert ask(app, "/", Cookie="crlc-token=").status == 403


def test_the_token_is_shown_once_and_kept_in_a_cookie(open_app):
    app, token = open_app
    answer = ask(app, f"/train?token={token}&dataset=set")
    assert (answer.status, answer.headers["location"]) == (303, "/train?dataset=set")
    cookie, *rules = answer.headers["set-cookie"].split("; ")
    assert cookie == f"crlc-token={token}"
    assert {"HttpOnly", "SameSite=lax"} <= set(rules)
    assert ask(app, "/", Cookie=cookie).status == 200
    assert ask(app, "/images/set/1", Cookie=f"other=1; {cookie}").headers["content-type"] == "image/png"
    assert ask(app, f"//evil.example/?token={token}").headers["location"] == "/evil.example/"


def test_websockets_want_it_too(open_app):
    app, token = open_app
    address = f"{app.url.replace('http', 'ws')}/_stcore/stream"
    with pytest.raises(InvalidStatus, match="403"):
        connect(address, proxy=None)
    with connect(address, additional_headers={"Cookie": f"crlc-token={token}"}, proxy=None):
        pass


def test_its_own_names_are_answered_and_no_others(open_app):
    app, token = open_app
    cookie = f"crlc-token={token}"
    assert ask(app, "/", Host="evil.example", Cookie=cookie).status == 400
    assert ask(app, "/", Host=os.uname().nodename.lower(), Cookie=cookie).status == 200


def test_another_web_page_gets_nothing(app: RunningApp):
    port = app.url.rsplit(":", 1)[1]
    for path in ("/images/set/1", "/galleries/set?side=99&ids=1"):
        assert ask(app, path, Origin="http://evil.example").status == 403
    assert ask(app, "/", Origin="http://localhost:3000").status == 403
    assert ask(app, "/", Origin=app.url).status == 200
    address = f"{app.url.replace('http', 'ws')}/_stcore/stream"
    with pytest.raises(InvalidStatus, match="403"):
        connect(address, origin=f"http://localhost:{port}", proxy=None)
    with connect(address, origin=app.url, proxy=None):
        pass


def test_a_host_that_is_not_this_computer_is_refused():
    for host in ("198.51.100.7", "no such name", "::"):
        with pytest.raises(PortTakenError, match=f"--host {host} is not allowed"):
            listen(None, host)
    assert [is_private(address) for address in ("127.0.0.1", "127.8.0.1", "0.0.0.0", "10.0.0.4")] == [
        True,
        True,
        False,
        False,
    ]
    assert reachable_as("127.0.0.1") == ["127.0.0.1", "localhost"]
    assert "10.0.0.4" in reachable_as("10.0.0.4")


def test_a_window_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With a Chromium that only notes how it was called."""
    pipe = tmp_path / "called"
    os.mkfifo(pipe)
    program = tmp_path / "chromium"
    program.write_text(f'#!/bin/sh\necho "$@" > {pipe}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert window_browser() == str(program)
    open_window("http://127.0.0.1:8501")
    assert pipe.read_text() == "--app=http://127.0.0.1:8501\n"


def test_without_such_a_browser_the_usual_one(monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert window_browser() is None
    open_window("http://127.0.0.1:8501")
    assert opened == ["http://127.0.0.1:8501"]


def test_a_workspace_that_is_a_file_is_said_in_one_line(tmp_path: Path):
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "app", "--no-browser", "--workspace", str(tmp_path / "file")]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("error: The workspace")
