"""Routes of uploads: files are written as they arrive, inside the folder of their upload only."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.server.routes.uploads import UPLOAD_ROUTES
from crlc.services.store_uploads import finish_upload
from crlc.workspace import Workspace


@pytest.fixture
def client(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))
    return TestClient(Starlette(routes=UPLOAD_ROUTES))


def test_uploaded_files_arrive_with_their_folders(client: TestClient, workspace: Workspace):
    upload = client.post("/uploads?bytes=4000000").json()["id"]
    large = bytes(range(256)) * 12_000  # arrives in several parts
    parts = (large[start : start + 70_000] for start in range(0, len(large), 70_000))
    assert client.put(f"/uploads/{upload}", params={"path": "a b/é&?.jpg"}, content=parts).status_code == 204
    assert client.put(f"/uploads/{upload}", params={"path": "../../x.jpg"}, content=b"").status_code == 204
    (folder,) = finish_upload(workspace, upload, "holiday")
    assert (folder / "a b" / "é&_.jpg").read_bytes() == large
    assert (folder / "x.jpg").read_bytes() == b""


def test_upload_routes_refuse_what_they_cannot_store(client: TestClient, workspace: Workspace):
    assert client.post("/uploads").status_code == 400
    assert client.post("/uploads?bytes=-1").status_code == 400
    full = client.post(f"/uploads?bytes={10**18}")
    assert (full.status_code, "GB left" in full.text) == (507, True)
    assert client.post(f"/uploads?bytes={'9' * 5000}").status_code == 507  # too many digits for int()
    assert client.post("/uploads?bytes=%D9%A3").status_code == 400  # a digit of another script
    assert client.post("/uploads?bytes=1e3").status_code == 400
    upload = client.post("/uploads?bytes=1").json()["id"]
    assert client.put(f"/uploads/{upload}", content=b"x").status_code == 400  # without a path
    assert client.put(f"/uploads/{'0' * 32}?path=a.jpg", content=b"x").status_code == 404
    assert client.delete(f"/uploads/{upload}").status_code == 204
    assert client.put(f"/uploads/{upload}?path=a.jpg", content=b"x").status_code == 404
    assert list((workspace.root / "uploads").iterdir()) == []
