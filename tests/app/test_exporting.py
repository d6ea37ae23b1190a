"""Exports of the app: what is written, where to, and what the browser gets."""

from __future__ import annotations

import tempfile
from pathlib import Path
from urllib.parse import unquote

import pytest

from app.export_routes import attachment, export_url
from app.exporting import FORMATS, ExportOptions, destination, file_name, preview, write_export, write_folders
from app.routes import labels_url
from crlc.errors import CrlcError, NotFoundError, UsageError
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.clusterings import ClusterEditor, Clustering
from crlc.workspace.export.tables import read_assignments
from tests.app.conftest import RunningApp
from tests.app.test_server import ask
from tests.app.tiny_run import CLUSTERS, PLACES, SURE, tiny_dataset, tiny_run

ALL = ExportOptions()


@pytest.fixture
def run(workspace: Workspace, tmp_path: Path) -> RunFolder:
    """Image 1 labelled with what a spreadsheet would compute, image 2 excluded, cluster 0 named."""
    dataset = tiny_dataset(workspace, tmp_path / "set")
    run = tiny_run(workspace, dataset)
    said_by_people(workspace, run)
    return run


def said_by_people(workspace: Workspace, run: RunFolder) -> None:
    dataset = workspace.dataset("set")
    with Annotations(dataset) as annotations:
        annotations.label([1], "=cmd()")
        annotations.exclude([2])
        ClusterEditor(annotations, Clustering.of(run, dataset)).name(0, "cats <b>")


def test_previews_are_the_first_rows_of_what_is_written(workspace: Workspace, run: RunFolder, tmp_path: Path):
    csv = FORMATS["csv"]
    shown = preview(workspace, run, csv, ALL)
    write_export(workspace, run, csv, tmp_path / "all.csv", ALL)
    written = list(read_assignments(tmp_path / "all.csv"))
    assert shown.count == len(written) == 12
    assert [row["path"] for row in shown.rows] == [row.path for row in written]
    assert [row["cluster"] for row in shown.rows] == [row.cluster for row in written] == CLUSTERS
    assert shown.rows[0]["label"] == "=cmd()"
    assert shown.remarks == ("1 excluded images are marked in a column.",)

    without = ExportOptions(excluded=False)
    assert preview(workspace, run, csv, without).count == 11
    write_export(workspace, run, FORMATS["parquet"], tmp_path / "some.parquet", without)
    assert [row.image_id for row in read_assignments(tmp_path / "some.parquet")] == [1, *range(3, 13)]

    folders = preview(workspace, run, FORMATS["folders"], ALL)
    assert [(row["cluster"], row["name"], row["images"]) for row in folders.rows] == [
        (0, "cats <b>", 3),
        (1, "", 4),
        (2, "", 4),
    ]
    labels = preview(workspace, run, FORMATS["labels"], ALL)
    assert (labels.rows, labels.count) == ([{"path": "a/00000.png", "label": "=cmd()"}], 1)


def test_a_preview_follows_what_people_do(workspace: Workspace, run: RunFolder):
    assert preview(workspace, run, FORMATS["labels"], ALL).count == 1
    with Annotations(workspace.dataset("set")) as annotations:
        annotations.label([5, 6], "dog")
    assert preview(workspace, run, FORMATS["labels"], ALL).count == 3
    assert [row["label"] for row in preview(workspace, run, FORMATS["csv"], ALL).rows[4:6]] == ["dog", "dog"]


def test_folders_and_files_go_where_a_person_says(workspace: Workspace, run: RunFolder, tmp_path: Path):
    said = write_folders(workspace, run, tmp_path / "sorted", "absolute")
    assert said == f"Made 11 links in 3 folders of {tmp_path}/sorted. Left out: 1 excluded."
    assert sorted(file.name for file in (tmp_path / "sorted" / "00-cats _b_").iterdir()) == [
        "00000.png", "00002.png", "00003.png",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="is not empty"):
        write_folders(workspace, run, tmp_path / "sorted", "copy")
    with pytest.raises(UsageError, match="among the originals"):
        write_folders(workspace, run, tmp_path / "set" / "sorted", "copy")

    csv = FORMATS["csv"]
    place = destination(str(tmp_path), file_name(run, csv), csv)
    assert place == tmp_path / "tiny-run.csv"
    write_export(workspace, run, csv, place, ALL)
    with pytest.raises(UsageError, match="exists already"):
        write_export(workspace, run, csv, place, ALL)
    for wrong, reason in (
        ("", "Enter a path"),
        ("a.csv", "no whole path"),
        (f"{tmp_path}/a.txt", "should end in .csv"),
    ):
        with pytest.raises(UsageError, match=reason):
            destination(wrong, "x.csv", csv)
    with pytest.raises(CrlcError, match="there is no folder"):
        write_export(workspace, run, FORMATS["labels"], tmp_path / "nowhere" / "labels.csv", ALL)
    with pytest.raises(NotFoundError, match="No map is called 'other'"):
        ExportOptions("other")


def test_any_name_fits_into_the_header():
    assert attachment('a "b"; é\n.csv') == "attachment; filename*=UTF-8''a%20%22b%22%3B%20%C3%A9%0A.csv"


def test_the_browser_gets_files_by_run_and_format_only(app: RunningApp, tmp_path: Path):
    run = tiny_run(app.workspace, tiny_dataset(app.workspace, tmp_path / "set"))
    said_by_people(app.workspace, run)
    left_before = set(Path(tempfile.gettempdir()).glob("crlc-export-*"))
    for key, name in (
        ("csv", "tiny-run.csv"),
        ("parquet", "tiny-run.parquet"),
        ("html", "tiny-run-map.html"),
        ("labels", "set-labels.csv"),
    ):
        answer = ask(app, export_url(run, FORMATS[key], ALL))
        content = answer.read()
        assert answer.status == 200, content
        assert unquote(answer.headers["content-disposition"]) == f"attachment; filename*=UTF-8''{name}"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert int(answer.headers["content-length"]) == len(content)
        (tmp_path / name).write_bytes(content)
    rows = list(read_assignments(tmp_path / "tiny-run.csv"))
    assert [row.cluster for row in rows] == CLUSTERS
    assert [row.confidence for row in rows] == pytest.approx(SURE)
    assert [(row.map_x, row.map_y) for row in rows] == [tuple(place) for place in PLACES.tolist()]
    assert (tmp_path / "set-labels.csv").read_text() == "path,label\na/00000.png,'=cmd()\n"
    of_dataset = ask(app, labels_url("set"))
    assert of_dataset.read() == (tmp_path / "set-labels.csv").read_bytes()
    assert unquote(of_dataset.headers["content-disposition"]) == "attachment; filename*=UTF-8''set-labels.csv"
    assert "'=cmd()" in (tmp_path / "tiny-run.csv").read_text()
    page = (tmp_path / "tiny-run-map.html").read_text()
    assert "cats \\u003cb\\u003e" in page
    assert "cats <b>" not in page

    fewer = ask(app, export_url(run, FORMATS["csv"], ExportOptions("pca", excluded=False)))
    assert len(fewer.read().splitlines()) == 12  # with the header
    for path, status in (
        ("/labels/other", 404),
        ("/exports/other/csv", 404),
        ("/exports/tiny/csv", 404),  # the beginning of a name is not enough
        ("/exports/..%2Ftiny-run/csv", 404),
        ("/exports/tiny-run/exe", 404),
        ("/exports/tiny-run/folders", 404),
        ("/exports/tiny-run/csv?map=..%2F..", 404),
        ("/exports/tiny-run/model", 404),  # it has no checkpoint
    ):
        answer = ask(app, path)
        assert answer.status in (status, 400), path
        assert answer.headers["content-disposition"] is None
    assert ask(app, "/exports/tiny-run/csv", **{"Sec-Fetch-Site": "cross-site"}).status == 403
    assert ask(app, "/exports/tiny-run/csv", Origin="http://evil.example").status == 403
    assert set(Path(tempfile.gettempdir()).glob("crlc-export-*")) == left_before  # nothing is left behind
