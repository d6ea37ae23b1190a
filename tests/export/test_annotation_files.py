"""COCO and Label Studio files."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from crlc.annotations.state import AnnotationState
from crlc.annotations.store import AnnotationStore
from crlc.errors import UsageError
from crlc.export.annotation_files import (
    AnnotationFileReport,
    build_labelling_config,
    get_document_root,
    write_coco_file,
    write_label_studio_file,
)
from crlc.export.rows import RunExport
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import write_handmade_run
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import CLUSTERS, annotate_tiny_run, import_tiny_dataset, write_tiny_run


@pytest.fixture
def export(workspace: Workspace, tmp_path: Path) -> RunExport:
    """Return twelve images: 1 is labelled `dog`, 5 as the cluster 0 is called, 2 is excluded."""
    dataset = import_tiny_dataset(workspace, tmp_path / "set & more")
    run = write_tiny_run(workspace, dataset)
    annotate_tiny_run(dataset, run, "dog", 'cats "<b>"')
    with AnnotationStore(dataset) as annotations:
        annotations.label([5], 'cats "<b>"')
        return RunExport.from_run(run, dataset, annotations.refresh())


def test_coco_file_loads_with_pycocotools_and_torchvision(export: RunExport, tmp_path: Path):
    from torchvision.datasets import CocoDetection

    file = tmp_path / "coco.json"
    assert write_coco_file(export, file) == AnnotationFileReport(11, 4, 1, 0)
    images = CocoDetection(str(tmp_path / "set & more"), str(file))
    assert len(images) == 11
    names = {number: entry["name"] for number, entry in images.coco.cats.items()}
    assert names == {0: 'cats "<b>"', 1: "cluster 1", 2: "cluster 2", 3: "dog"}
    found = {target[0]["image_id"]: target[0] for _, target in images}
    assert {number: entry["category_id"] for number, entry in found.items()} == {
        number: {1: 3, 5: 0}.get(number, CLUSTERS[number - 1]) for number in (1, *range(3, 13))
    }
    assert (found[1]["source"], "score" in found[1]) == ("person", False)
    assert (found[3]["source"], found[3]["score"]) == ("model", pytest.approx(0.7))
    pixels, _ = images[0]
    entry = images.coco.imgs[1]
    assert (entry["file_name"], entry["width"], entry["height"]) == ("a/00000.png", *pixels.size)


def test_label_studio_tasks_refer_to_the_labelling_interface(export: RunExport, tmp_path: Path):
    """Check the structure only: Label Studio's SDK needs 30 packages.

    By hand, `LabelInterface` of label-studio-sdk accepted the interface and every task, prediction and annotation.
    """
    file = tmp_path / "tasks.json"
    assert write_label_studio_file(export, file) == AnnotationFileReport(11, 4, 1, 0)
    tasks = {task["data"]["image_id"]: task for task in json.loads(file.read_text())}
    interface = ET.fromstring(build_labelling_config(export))
    choices = [choice.get("value") for choice in interface.iter("Choice")]
    assert choices == ['cats "<b>"', "cluster 1", "cluster 2", "dog"]
    results = [
        result
        for task in tasks.values()
        for part in ("predictions", "annotations")
        for entry in task.get(part, [])
        for result in entry["result"]
    ]
    assert {result["from_name"] for result in results} == {interface.find("Choices").get("name")}
    assert {result["to_name"] for result in results} == {interface.find("Image").get("name")}
    assert {result["value"]["choices"][0] for result in results} <= set(choices)
    assert tasks[3]["predictions"][0]["score"] == pytest.approx(0.7)
    assert tasks[3]["predictions"][0]["model_version"] == "tiny-run"
    assert [number for number, task in tasks.items() if "annotations" in task] == [1, 5]
    for task in tasks.values():  # Label Studio joins its document root and `d`
        served = parse_qs(urlsplit(task["data"]["image"]).query)["d"][0]
        assert Path(get_document_root(export), served).is_file()


def test_coco_images_and_label_studio_tasks_have_columns(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "in" / "x", 2)
    (tmp_path / "in" / "list.csv").write_text("path,when,id,image\nx/00000.png,2024-05-01,7,A\nx/00001.png,,,\n")
    dataset, _ = workspace.import_dataset(str(tmp_path / "in" / "list.csv"), name="listed")
    export = RunExport.from_run(write_handmade_run(workspace, dataset, [0, 1], 2), dataset, AnnotationState())
    write_coco_file(export, tmp_path / "coco.json")
    first, second = json.loads((tmp_path / "coco.json").read_text())["images"]
    assert (first["id"], first["list_id"], first["when"], first["image"]) == (1, 7, "2024-05-01T00:00:00", "A")
    assert (first["width"], first["height"], "list_width" in first, "when" in second) == (24, 24, False, False)
    write_label_studio_file(export, tmp_path / "tasks.json")
    data = [task["data"] for task in json.loads((tmp_path / "tasks.json").read_text())]
    assert (data[0]["list_image"], data[0]["id"], data[0]["width"], data[0]["image_id"]) == ("A", 7, 24, 1)
    assert data[0]["image"].startswith("/data/local-files/")
    write_label_studio_file(export, tmp_path / "short.json", columns=False)
    assert set(json.loads((tmp_path / "short.json").read_text())[0]["data"]) == {"image", "image_id"}
    write_coco_file(export, tmp_path / "short-coco.json", columns=False)
    images = json.loads((tmp_path / "short-coco.json").read_text())["images"]
    assert set(images[0]) == {"id", "file_name", "width", "height"}


def test_label_studio_leaves_out_images_outside_the_served_folder(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "lists" / "near", 1)
    save_images(tmp_path / "far", 1, first_seed=5)
    listing = tmp_path / "lists" / "near" / "all.csv"
    listing.write_text(f"path\n00000.png\n{tmp_path}/far/00000.png\n")
    dataset, _ = workspace.import_dataset(str(listing))
    with AnnotationStore(dataset) as annotations:
        rows = RunExport.from_provisional_clusters(
            dataset, annotations.refresh(), np.array([1, 2]), np.array([0, 0]), np.zeros((2, 2), np.float32)
        )
    report = write_label_studio_file(rows, tmp_path / "tasks.json")
    assert (report.images, report.outside) == (1, 1)
    assert "score" not in json.loads((tmp_path / "tasks.json").read_text())[0]["predictions"][0]


def test_label_studio_refuses_images_that_are_not_files(workspace: Workspace, tmp_path: Path):
    np.savez(tmp_path / "images.npz", images=np.zeros((3, 8, 8, 3), np.uint8))
    dataset, _ = workspace.import_dataset(str(tmp_path / "images.npz"))
    with AnnotationStore(dataset) as annotations:
        rows = RunExport.from_provisional_clusters(
            dataset, annotations.refresh(), np.arange(1, 4), np.zeros(3, np.int64), np.zeros((3, 2), np.float32)
        )
    with pytest.raises(UsageError, match="not single files"):
        write_label_studio_file(rows, tmp_path / "tasks.json")
    assert not (tmp_path / "tasks.json").exists()
    assert write_coco_file(rows, tmp_path / "coco.json").images == 3
