"""Route of the suggestions of the search box."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.server.routes.search import SEARCH_ROUTES, build_suggestions_url
from app.view_models.view_cache import open_run_view
from crlc.workspace import Workspace
from tests.fixtures.class_scores import write_class_scores
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run


def test_suggestions_have_kind_text_and_number_of_images(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    write_class_scores(dataset)
    view = open_run_view(workspace, write_tiny_run(workspace, dataset))
    client = TestClient(Starlette(routes=SEARCH_ROUTES))
    url = build_suggestions_url(view)
    found = client.get(url, params={"q": " Dog"})
    assert found.headers["cache-control"] == "no-store"
    assert found.json()["suggestions"][0] == {"kind": "word", "text": "dog", "images": 2}
    paths = client.get(url, params={"q": "a/0"}).json()["suggestions"]
    assert paths[0] == {"kind": "file name", "text": "a/0", "images": 4}
    assert [one["images"] for one in paths] == [4, 1, 1, 1]  # three of the files
    assert client.get(url).json() == {"suggestions": []}
    assert client.get(url, params={"q": "x" * 10_000}).json() == {"suggestions": []}
    assert client.get("/search/runs/nothing", params={"q": "dog"}).status_code == 404
