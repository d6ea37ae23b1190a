"""The server: only for this computer, only known images, quick."""

from __future__ import annotations

import http.client
import io
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from PIL import Image

from app.server import PortTakenError, listen
from tests.app.conftest import RunningApp
from tests.conftest import ROOT
from tests.pictures import save_pictures


def ask(app: RunningApp, path: str, **headers: str) -> http.client.HTTPResponse:
    host, port = app.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def test_it_listens_on_this_computer_only(app: RunningApp):
    listening = [c for c in psutil.Process(app.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert {connection.laddr.ip for connection in listening} == {"127.0.0.1"}


def test_images_are_served_by_id(app: RunningApp, tmp_path: Path):
    save_pictures(tmp_path / "set", 2, width=300, height=200)
    app.workspace.import_dataset(str(tmp_path / "set"))
    answer = ask(app, "/images/set/2?side=100")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert Image.open(io.BytesIO(answer.read())).size == (100, 67)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/images/set/3", 404),
        ("/images/set/0", 404),
        ("/images/other/1", 404),
        ("/images/..%2f..%2fset/1", 400),
        ("/images/set/1?side=9999999", 400),
        ("/images/set/1?side=x", 400),
    ],
)
def test_nothing_else_is_served_as_an_image(app: RunningApp, tmp_path: Path, path: str, status: int):
    save_pictures(tmp_path / "set", 2)
    app.workspace.import_dataset(str(tmp_path / "set"))
    answer = ask(app, path)
    assert not (answer.headers["content-type"] or "").startswith("image/")
    assert answer.status == status


def test_another_host_name_is_refused(app: RunningApp):
    assert ask(app, "/", Host="evil.example").status == 400
    assert ask(app, "/", Host="localhost").status == 200


def test_small_answers_do_not_wait_for_an_acknowledgement(app: RunningApp):
    host, port = app.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    times = []
    for _ in range(15):
        started = time.perf_counter()
        connection.request("GET", "/_stcore/health")
        connection.getresponse().read()
        times.append(time.perf_counter() - started)
    assert sorted(times)[len(times) // 2] < 0.03  # 44 ms each without TCP_NODELAY


def test_a_port_that_is_taken_is_said_in_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "app", "--no-browser", "--port", str(port)]
        outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert outcome.returncode == 1
        assert outcome.stderr.startswith(f"error: --port {port} cannot be used: Address already in use")
        assert len(outcome.stderr.splitlines()) == 1
    with pytest.raises(PortTakenError, match="from 1 to 65535"):
        listen(70000)


def test_without_a_port_any_free_one_will_do():
    with listen(None) as first, listen(None) as second:
        assert first.getsockname()[1] != second.getsockname()[1]
