"""Map routes: the arrays they send, and the requests they reject."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.server.routes.maps import MAP_ROUTES, build_coordinates_url, build_ids_url, build_values_url
from app.view_models.cluster_levels import open_level
from app.view_models.image_selection import normalize_coordinates
from app.view_models.view_cache import open_run_view
from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor
from crlc.workspace import Workspace
from tests.app.conftest import RunningApp
from tests.app.server.test_asgi import send_request
from tests.fixtures.mutations import replace_bytes
from tests.fixtures.tiny_run import CLUSTERS, COORDINATES, import_tiny_dataset, write_tiny_run


@pytest.mark.parametrize("file", ["annotations.sqlite", "manifest.sqlite"])
def test_map_routes_name_a_damaged_database(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
):
    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    write_tiny_run(workspace, dataset)
    with AnnotationStore(dataset) as annotations:
        annotations.label([1], "x")
    replace_bytes(dataset.folder / file, b"CREATE TABLE meta", b"CREATE T\x93BLE meta")
    client = TestClient(Starlette(routes=MAP_ROUTES))
    for path in ("ids.bin", "coordinates/pca.bin", "values/cluster.bin"):
        response = client.get(f"/maps/runs/tiny-run/{path}")
        assert (response.status_code, file in response.text) == (404, True)


@pytest.mark.slow
def test_map_routes_send_coordinates_ids_and_values(app: RunningApp, tmp_path: Path):
    dataset = import_tiny_dataset(app.workspace, tmp_path / "set")
    run = write_tiny_run(app.workspace, dataset)
    view = open_run_view(app.workspace, run)

    def get(url: str) -> np.ndarray | int:
        response = send_request(app, url)
        if response.status != 200:
            assert not (response.headers["content-type"] or "").startswith("application/octet")
            return response.status
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
        kind = "<f4" if "/coordinates/" in url else "<u4" if "/ids" in url else "<u2"
        return np.frombuffer(response.read(), kind)

    np.testing.assert_array_equal(get(build_coordinates_url(view, "umap")), normalize_coordinates(COORDINATES).ravel())
    np.testing.assert_array_equal(get(build_ids_url(view)), np.arange(1, 13))
    np.testing.assert_array_equal(get(build_values_url(view, "cluster")), CLUSTERS)
    level = open_level(view, 2)
    np.testing.assert_array_equal(get(build_values_url(level, "cluster")), level.clusters)
    for unknown in (
        "/maps/runs/other/ids.bin",
        "/maps/runs/tiny/ids.bin",  # a prefix is not enough
        "/maps/runs/..%2Ftiny-run/ids.bin",
        "/maps/datasets/set/ids.bin",  # was not explored
        "/maps/models/tiny-run/ids.bin",
        "/maps/runs/tiny-run/coordinates/other.bin",
        "/maps/runs/tiny-run/values/label.bin",
        "/maps/runs/tiny-run/values/..%2F..%2Frun.json.bin",
    ):
        assert get(unknown) in (400, 404), unknown

    # Editing clusters changes the values, not the coordinates; excluding an image changes both.
    with AnnotationStore(dataset) as annotations:
        ClusterEditor(annotations, view.analysis.clustering).merge([1, 2])
        assert get(build_values_url(view, "cluster")) == 409
        newer = open_run_view(app.workspace, run)
        assert build_ids_url(newer) == build_ids_url(view)
        np.testing.assert_array_equal(get(build_values_url(newer, "cluster")), [0] * 4 + [1] * 8)
        annotations.exclude([1])
    assert get(build_coordinates_url(view, "umap")) == 409
    np.testing.assert_array_equal(get(build_ids_url(open_run_view(app.workspace, run))), np.arange(2, 13))
