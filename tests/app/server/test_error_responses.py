"""Routes in a workspace with damaged files or without permissions: the text of the error instead of a status of 500."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.server.routes import images
from app.server.routes.all_routes import ROUTES
from crlc.workspace import Workspace
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run

PATHS = (
    "/maps/runs/tiny-run/ids.bin",
    "/exports/tiny-run/csv",
    "/galleries/set?ids=1&side=64",
    "/search/runs/tiny-run?q=a",
    "/labels/set",
    "/images/set/1",
)


@pytest.fixture
def client(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))
    write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set"))
    return TestClient(Starlette(routes=ROUTES), raise_server_exceptions=False)


def test_routes_answer_beside_a_run_whose_metadata_is_a_link_to_itself(client: TestClient, workspace: Workspace):
    other = workspace.root / "runs" / "other" / "run.json"
    other.parent.mkdir()
    other.symlink_to(other)
    assert [client.get(path).status_code for path in PATHS] == [200] * len(PATHS)
    response = client.get("/maps/runs/other/ids.bin")
    assert (response.status_code, str(other) in response.text) == (404, True)


def test_routes_name_a_file_in_the_place_of_a_folder(client: TestClient, workspace: Workspace):
    shutil.rmtree(workspace.root / "datasets")
    (workspace.root / "datasets").touch()
    for path in PATHS:
        response = client.get(path)
        assert response.status_code in (404, 409), path
        assert f"{workspace.root / 'datasets'} is not a folder" in response.text
    assert client.delete(f"/uploads/{'0' * 32}").status_code == 409


def test_routes_name_missing_permissions(client: TestClient, workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    """Raised by a replaced function: root, which runs tests in containers, has all permissions."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(workspace.root / "runs"))

    monkeypatch.setattr(images, "open_dataset", refuse)
    response = client.get("/images/set/1")
    assert response.status_code == 409
    assert f"{workspace.root / 'runs'} cannot be used: permission denied" in response.text


def test_routes_do_not_hide_an_error_of_the_program(client: TestClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(images, "open_dataset", lambda _: 1 / 0)
    assert client.get("/images/set/1").status_code == 500
