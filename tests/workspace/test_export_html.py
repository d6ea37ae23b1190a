"""The page with the map: it is whole, it needs nothing else, and no name in it is taken for HTML."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.analysis.map_settings import MapSettings
from crlc.analysis.palette import DISTINCT
from crlc.config import ImportOptions
from crlc.data.dataset import ImageDataset
from crlc.errors import UsageError
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.clusterings import ClusterEditor, Clustering
from crlc.workspace.export import html_map
from crlc.workspace.export.html_map import MapReport, write_html_map
from crlc.workspace.export.rows import RunExport
from tests.pictures import picture
from tests.workspace.test_export_rows import Q, make_run

ATTACK = "<img src=x onerror=alert(1)>&.png"
NAMES = ["a.png", "b.png", "c.png", "d.png", ATTACK]


@pytest.fixture
def dataset(workspace: Workspace, tmp_path: Path) -> ImageDataset:
    for seed, name in enumerate(NAMES):
        (tmp_path / "set").mkdir(exist_ok=True)
        picture(seed, 100, 50).save(tmp_path / "set" / name)
    return workspace.import_dataset(str(tmp_path / "set"), options=ImportOptions(size=16, workers=1))[0]


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    run = make_run(workspace, dataset)
    with Annotations(dataset) as annotations:
        ClusterEditor(annotations, Clustering.of(run, dataset)).name(0, "</script><b>bold</b>")
        annotations.label([1], "my & label")
    return run


def exported(run: RunFolder, dataset: ImageDataset) -> RunExport:
    with Annotations(dataset) as annotations:
        return RunExport.of(run, dataset, annotations.refresh(), wanted_map=MapSettings("pca"))


def embedded(page: str, kind: str) -> list[dict]:
    found = re.findall(rf'<script type="application/json" class="{kind}">(.*?)</script>', page, re.DOTALL)
    return [json.loads(text) for text in found]


def test_the_page_holds_everything(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    export = exported(run, dataset)
    assert write_html_map(export, tmp_path / "map.html", slots=(4, 0, 2)) == MapReport(
        images=5, thumbnails=5, left_out=0
    )
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    (about,), (part,) = embedded(page, "about"), embedded(page, "part")
    assert about["clusters"] == [
        {"number": 0, "name": "</script><b>bold</b>", "images": 2, "colour": DISTINCT[4]},
        {"number": 1, "name": None, "images": 1, "colour": DISTINCT[0]},
        {"number": 2, "name": None, "images": 2, "colour": DISTINCT[2]},
    ]
    ids = [number for chunk in export.chunks() for number in chunk.ids.tolist()]
    assert part["path"] == [dataset.record(number).path for number in ids] == sorted(NAMES)
    assert part["cluster"] == Q.argmax(axis=1)[np.array(ids) - 1].tolist()
    np.testing.assert_allclose(np.stack([part["x"], part["y"]], axis=1), export.places[np.array(ids) - 1], atol=1e-4)
    assert part["label"][ids.index(1)] == "my & label"
    kind, _, content = part["picture"][0].partition(",")
    assert kind == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(content))).size == (80, 40)


def test_no_name_becomes_markup_and_nothing_is_loaded(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    write_html_map(exported(run, dataset), tmp_path / "map.html")
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert "<b>bold" not in page
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)=", page.replace("<script>/**", "")) == []
    assert "default-src 'none'" in page


def test_many_images_are_points_only(
    run: RunFolder, dataset: ImageDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(html_map, "MOST_THUMBNAILS", 4)
    monkeypatch.setattr(html_map, "_PART", 2)
    assert write_html_map(exported(run, dataset), tmp_path / "map.html").thumbnails == 0
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert [len(part["x"]) for part in embedded(page, "part")] == [2, 2, 1]
    assert not any("picture" in part for part in embedded(page, "part"))
    assert embedded(page, "about")[0]["note"] == "Without pictures, as there are more than 4 images."


def test_excluded_images_and_those_without_an_original(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    with Annotations(dataset) as annotations:
        annotations.exclude([2])
    (tmp_path / "set").rename(tmp_path / "away")  # pictures come from the stored pixels then
    assert write_html_map(exported(run, dataset), tmp_path / "map.html") == MapReport(4, 4, 1)


def test_refused(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    with Annotations(dataset) as annotations:
        without = RunExport.of(run, dataset, annotations.refresh())
    with pytest.raises(UsageError, match="has no map yet"):
        write_html_map(without, tmp_path / "map.html")
    (tmp_path / "map.html").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write_html_map(exported(run, dataset), tmp_path / "map.html")
    assert (tmp_path / "map.html").read_text() == "mine"
