"""Exports of the app: cached previews and downloads."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from starlette.requests import Request

from app.server.routes.exports import build_attachment_header, build_download_name, build_export_url, serve_export
from app.urls import build_labels_url
from app.view_models.export_previews import open_exporter, open_provisional_exporter, preview_export
from crlc.annotations.store import AnnotationStore
from crlc.runs.folder import RunFolder
from crlc.services.export import FORMATS
from crlc.services.export_types import ExportOptions, ExportReport
from crlc.workspace import Workspace
from tests.app.conftest import RunningApp
from tests.app.server.test_asgi import send_request
from tests.fixtures.exported_tables import read_assignments
from tests.fixtures.tiny_run import (
    CLUSTERS,
    CONFIDENCES,
    COORDINATES,
    annotate_tiny_run,
    import_tiny_dataset,
    write_exploration,
    write_tiny_run,
)

ALL = ExportOptions()


@pytest.fixture
def run(workspace: Workspace, tmp_path: Path) -> RunFolder:
    """Return a run whose image 1 has a spreadsheet formula as its label; image 2 is excluded, cluster 0 is named."""
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    run = write_tiny_run(workspace, dataset)
    annotate_tiny_run(dataset, run, "=cmd()", "cats <b>")
    return run


def test_download_of_a_file_with_a_script_has_both(
    workspace: Workspace, run: RunFolder, monkeypatch: pytest.MonkeyPatch
):
    def write(_: object, file: Path, *__: object) -> ExportReport:
        file.write_bytes(b"graph")
        file.with_suffix(".py").write_text("script")
        return ExportReport(file, "")

    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))
    monkeypatch.setitem(FORMATS, "onnx", replace(FORMATS["onnx"], write=write))
    name = build_download_name(open_exporter(workspace, run), FORMATS["onnx"])
    scope = {"type": "http", "headers": [], "query_string": b"", "path_params": {"run": run.id, "format": "onnx"}}
    response = serve_export(Request(scope))
    try:
        with zipfile.ZipFile(response.path) as archive:
            assert {Path(found).suffix: archive.read(found) for found in archive.namelist()} == {
                ".onnx": b"graph", ".py": b"script"
            }  # fmt: skip
        assert name.endswith(".zip")
        assert response.headers["content-disposition"] == build_attachment_header(name)
    finally:
        shutil.rmtree(Path(response.path).parent)


@pytest.mark.parametrize("removed", ["clusters", "created", "preset"])
def test_export_route_needs_no_entry_of_the_title(
    workspace: Workspace, run: RunFolder, monkeypatch: pytest.MonkeyPatch, removed: str
):
    monkeypatch.setenv("CRLC_WORKSPACE", str(workspace.root))
    metadata = run.read_metadata()
    (metadata["settings"] if removed == "clusters" else metadata).pop(removed)
    run.write_metadata({name: value for name, value in metadata.items() if name not in ("kind", "version")})
    scope = {"type": "http", "headers": [], "query_string": b"", "path_params": {"run": run.id, "format": "html"}}
    response = serve_export(Request(scope))
    assert response.status_code == 200
    shutil.rmtree(Path(response.path).parent)


def test_preview_export_follows_annotations(workspace: Workspace, run: RunFolder):
    def preview(key: str):
        return preview_export(open_exporter(workspace, run), FORMATS[key], ALL)

    assert preview("labels").count == 1
    assert preview("csv") is preview("csv")  # cached
    with AnnotationStore(workspace.open_dataset("set")) as annotations:
        annotations.label([5, 6], "dog")
    assert preview("labels").count == 3
    assert [row["label"] for row in preview("csv").rows[4:6]] == ["dog", "dog"]


def test_build_attachment_header_escapes_any_name():
    assert build_attachment_header('a "b"; é\n.csv') == "attachment; filename*=UTF-8''a%20%22b%22%3B%20%C3%A9%0A.csv"


@pytest.mark.slow
def test_export_route_serves_files_by_run_and_format(app: RunningApp, tmp_path: Path):
    run = write_tiny_run(app.workspace, import_tiny_dataset(app.workspace, tmp_path / "set"))
    annotate_tiny_run(app.workspace.open_dataset("set"), run, "=cmd()", "cats <b>")
    exporter = open_exporter(app.workspace, run)
    folders_before = set(Path(tempfile.gettempdir()).glob("crlc-export-*"))
    for key, name in (
        ("csv", "set-01-Jan-00-00-quick-3-clusters.csv"),
        ("parquet", "set-01-Jan-00-00-quick-3-clusters.parquet"),
        ("html", "set-01-Jan-00-00-quick-3-clusters-map.html"),
        ("labels", "set-labels.csv"),
    ):
        response = send_request(app, build_export_url(exporter, FORMATS[key], ALL))
        content = response.read()
        assert response.status == 200, content
        assert unquote(response.headers["content-disposition"]) == f"attachment; filename*=UTF-8''{name}"
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
        assert response.headers["cache-control"] == "no-store"
        assert int(response.headers["content-length"]) == len(content)
        (tmp_path / name).write_bytes(content)
    rows = list(read_assignments(tmp_path / "set-01-Jan-00-00-quick-3-clusters.csv"))
    assert [row.cluster for row in rows] == CLUSTERS
    assert [row.confidence for row in rows] == pytest.approx(CONFIDENCES)
    assert [(row.map_x, row.map_y) for row in rows] == [tuple(point) for point in COORDINATES.tolist()]
    assert (tmp_path / "set-labels.csv").read_text() == "path,label\na/00000.png,'=cmd()\n"
    of_dataset = send_request(app, build_labels_url("set"))
    assert of_dataset.read() == (tmp_path / "set-labels.csv").read_bytes()
    assert unquote(of_dataset.headers["content-disposition"]) == "attachment; filename*=UTF-8''set-labels.csv"
    assert "'=cmd()" in (tmp_path / "set-01-Jan-00-00-quick-3-clusters.csv").read_text()
    page = (tmp_path / "set-01-Jan-00-00-quick-3-clusters-map.html").read_text()
    assert "cats \\u003cb\\u003e" in page
    assert "cats <b>" not in page

    fewer = send_request(app, build_export_url(exporter, FORMATS["csv"], ExportOptions("pca", excluded=False)))
    assert len(fewer.read().splitlines()) == 12  # with the header
    write_exploration(exporter.dataset)
    provisional = open_provisional_exporter(app.workspace, exporter.dataset)
    url = build_export_url(provisional, FORMATS["csv"], ExportOptions(absolute_paths=True))
    header, first, *_ = send_request(app, url).read().decode().splitlines()
    assert header.startswith("path,absolute_path,cluster")
    assert first.split(",")[1] == f'"{tmp_path / "set" / "a" / "00000.png"}"'
    for path, status in (
        ("/labels/other", 404),
        ("/exports/provisional/set/model", 404),
        ("/exports/provisional/other/csv", 404),
        ("/exports/other/csv", 404),
        ("/exports/tiny/csv", 404),  # a prefix is not enough
        ("/exports/..%2Ftiny-run/csv", 404),
        ("/exports/tiny-run/exe", 404),
        ("/exports/tiny-run/folders", 404),
        ("/exports/tiny-run/csv?map=..%2F..", 404),
        ("/exports/tiny-run/model", 404),  # it has no checkpoint
    ):
        response = send_request(app, path)
        assert response.status in (status, 400), path
        assert response.headers["content-disposition"] is None
    assert send_request(app, "/exports/tiny-run/csv", **{"Sec-Fetch-Site": "cross-site"}).status == 403
    assert send_request(app, "/exports/tiny-run/csv", Origin="http://evil.example").status == 403
    assert set(Path(tempfile.gettempdir()).glob("crlc-export-*")) == folders_before  # all temporary folders are deleted
