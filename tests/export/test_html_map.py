"""Exported map page: complete, self-contained, and safe against names with markup."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.analysis.cluster_colours import PALETTE
from crlc.analysis.maps.settings import MapSettings
from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor, Clustering
from crlc.data.dataset import ImageDataset
from crlc.data.options import ImportOptions
from crlc.errors import UsageError
from crlc.export import html_map
from crlc.export.html_map import HtmlMapReport, write_html_map
from crlc.export.rows import RunExport
from crlc.runs.folder import RunFolder
from crlc.workspace import Workspace
from tests.fixtures.export_run import Q, make_run
from tests.fixtures.images import make_image

ATTACK = "<img src=x onerror=alert(1)>&.png"
NAMES = ["a.png", "b.png", "c.png", "d.png", ATTACK]


@pytest.fixture
def dataset(workspace: Workspace, tmp_path: Path) -> ImageDataset:
    for seed, name in enumerate(NAMES):
        (tmp_path / "set").mkdir(exist_ok=True)
        make_image(seed, 100, 50).save(tmp_path / "set" / name)
    return workspace.import_dataset(str(tmp_path / "set"), options=ImportOptions(size=16, workers=1))[0]


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    run = make_run(workspace, dataset)
    with AnnotationStore(dataset) as annotations:
        ClusterEditor(annotations, Clustering.from_run(run, dataset)).set_name(0, "</script><b>bold</b>")
        annotations.label([1], "my & label")
    return run


def create_export(run: RunFolder, dataset: ImageDataset) -> RunExport:
    with AnnotationStore(dataset) as annotations:
        return RunExport.from_run(run, dataset, annotations.refresh(), map_settings=MapSettings("pca"))


def read_embedded_json(page: str, kind: str) -> list[dict]:
    found = re.findall(rf'<script type="application/json" class="{kind}">(.*?)</script>', page, re.DOTALL)
    return [json.loads(text) for text in found]


def test_write_html_map_contains_clusters_points_and_thumbnails(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    export = create_export(run, dataset)
    assert write_html_map(export, tmp_path / "map.html", colours=(4, 0, 2)) == HtmlMapReport(
        images=5, thumbnails=5, left_out=0
    )
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    (about,), (part,) = read_embedded_json(page, "about"), read_embedded_json(page, "part")
    assert about["clusters"] == [
        {"number": 0, "name": "</script><b>bold</b>", "images": 2, "colour": PALETTE[4]},
        {"number": 1, "name": None, "images": 1, "colour": PALETTE[0]},
        {"number": 2, "name": None, "images": 2, "colour": PALETTE[2]},
    ]
    ids = [number for chunk in export.iterate_chunks() for number in chunk.ids.tolist()]
    assert part["path"] == [dataset.read_record(number).path for number in ids] == sorted(NAMES)
    assert part["cluster"] == Q.argmax(axis=1)[np.array(ids) - 1].tolist()
    np.testing.assert_allclose(
        np.stack([part["x"], part["y"]], axis=1), export.coordinates[np.array(ids) - 1], atol=1e-4
    )
    assert part["label"][ids.index(1)] == "my & label"
    kind, _, content = part["thumbnail"][0].partition(",")
    assert kind == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(content))).size == (80, 40)


def test_write_html_map_escapes_names_and_loads_nothing(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    write_html_map(create_export(run, dataset), tmp_path / "map.html")
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert "<b>bold" not in page
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)=", page) == []
    assert "default-src 'none'" in page


def test_write_html_map_of_many_images_has_small_thumbnails_and_of_more_none(
    run: RunFolder, dataset: ImageDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(html_map, "_MAX_LARGE_THUMBNAILS", 4)
    monkeypatch.setattr(html_map, "_POINTS_PER_PART", 2)
    assert write_html_map(create_export(run, dataset), tmp_path / "small.html").thumbnails == 5
    parts = read_embedded_json((tmp_path / "small.html").read_text(encoding="utf-8"), "part")
    assert [len(part["x"]) for part in parts] == [2, 2, 1]
    kind, _, content = parts[0]["thumbnail"][0].partition(",")
    assert kind == "data:image/jpeg;base64"  # a PNG of a photograph would be four times as large
    assert Image.open(io.BytesIO(base64.b64decode(content))).size == (40, 20)
    monkeypatch.setattr(html_map, "MAX_THUMBNAILS", 4)
    assert write_html_map(create_export(run, dataset), tmp_path / "map.html").thumbnails == 0
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert not any("thumbnail" in part for part in read_embedded_json(page, "part"))
    assert read_embedded_json(page, "about")[0]["note"].endswith("more than 4 images.")


def test_write_html_map_leaves_out_excluded_images_and_needs_no_originals(
    run: RunFolder, dataset: ImageDataset, tmp_path: Path
):
    with AnnotationStore(dataset) as annotations:
        annotations.exclude([2])
    (tmp_path / "set").rename(tmp_path / "away")  # thumbnails then come from the stored pixels
    assert write_html_map(create_export(run, dataset), tmp_path / "map.html") == HtmlMapReport(4, 4, 1)


def test_write_html_map_rejects_a_run_without_map_and_an_existing_file(
    run: RunFolder, dataset: ImageDataset, tmp_path: Path
):
    with AnnotationStore(dataset) as annotations:
        without = RunExport.from_run(run, dataset, annotations.refresh())
    with pytest.raises(UsageError, match="no map"):
        write_html_map(without, tmp_path / "map.html")
    (tmp_path / "map.html").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write_html_map(create_export(run, dataset), tmp_path / "map.html")
    assert (tmp_path / "map.html").read_text() == "mine"
