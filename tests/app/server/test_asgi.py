"""The server: bound to this computer, serves only known images, responds without delay."""

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

from app.server.asgi import BindError, bind_socket
from tests.app.conftest import RunningApp
from tests.conftest import ROOT
from tests.fixtures.images import save_images

pytestmark = pytest.mark.slow


def send_request(app: RunningApp, path: str, **headers: str) -> http.client.HTTPResponse:
    host, port = app.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def test_server_listens_on_this_computer_only(app: RunningApp):
    listening = [c for c in psutil.Process(app.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert {connection.laddr.ip for connection in listening} == {"127.0.0.1"}


def test_image_route_serves_images_by_id(app: RunningApp, tmp_path: Path):
    save_images(tmp_path / "set", 2, width=300, height=200)
    app.workspace.import_dataset(str(tmp_path / "set"))
    response = send_request(app, "/images/set/2?side=100")
    assert (response.status, response.headers["content-type"]) == (200, "image/jpeg")
    assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert Image.open(io.BytesIO(response.read())).size == (100, 67)
    assert Image.open(io.BytesIO(send_request(app, "/images/set/2?side=original").read())).size == (300, 200)


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
def test_image_route_rejects_unknown_images_and_sizes(app: RunningApp, tmp_path: Path, path: str, status: int):
    save_images(tmp_path / "set", 2)
    app.workspace.import_dataset(str(tmp_path / "set"))
    response = send_request(app, path)
    assert not (response.headers["content-type"] or "").startswith("image/")
    assert response.status == status


def test_image_routes_reject_numbers_that_are_too_large(app: RunningApp, tmp_path: Path):
    save_images(tmp_path / "set", 1)
    app.workspace.import_dataset(str(tmp_path / "set"))
    for number in (2**63, "9" * 5000):
        assert send_request(app, f"/images/set/{number}").status == 404
        assert send_request(app, f"/images/set/1?side={number}").status == 400
        assert send_request(app, f"/galleries/set?side=99&ids={number}").status == 400


def test_server_rejects_unknown_host_headers(app: RunningApp):
    assert send_request(app, "/", Host="evil.example").status == 400
    assert send_request(app, "/", Host="localhost").status == 200


def test_server_sends_small_responses_without_delay(app: RunningApp):
    host, port = app.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    times = []
    for _ in range(15):
        started = time.perf_counter()
        connection.request("GET", "/_stcore/health")
        connection.getresponse().read()
        times.append(time.perf_counter() - started)
    assert sorted(times)[len(times) // 2] < 0.03  # 44 ms each without TCP_NODELAY


def test_app_rejects_a_port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "app", "--no-browser", "--port", str(port)]
        outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert outcome.returncode == 1
        assert outcome.stderr.startswith(f"error: --port {port} cannot be used: Address already in use")
        assert len(outcome.stderr.splitlines()) == 1
        with pytest.raises(BindError) as error:
            bind_socket(port)
        assert error.value.advice == "Choose another port, or leave the option out."
    with pytest.raises(BindError, match="from 1 to 65535"):
        bind_socket(70000)


def test_bind_socket_chooses_a_free_port():
    with bind_socket(None) as first, bind_socket(None) as second:
        assert first.getsockname()[1] != second.getsockname()[1]
