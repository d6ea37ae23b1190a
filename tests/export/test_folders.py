"""Cluster folders with links and copies, on a real file system with unusual names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor, Clustering
from crlc.data.dataset import ImageDataset
from crlc.data.options import ImportOptions
from crlc.errors import CrlcError, SourceError, UsageError
from crlc.export.destinations import add_number, make_safe_file_name
from crlc.export.folders import FoldersReport, write_cluster_folders
from crlc.export.rows import RunExport
from crlc.workspace import Workspace
from tests.fixtures.export_run import make_run
from tests.fixtures.images import make_image

# Sorted by the bytes of the paths; the run has the first two and the last in cluster 0, the others in 1.
NAMES = ["=1.png", "a/same.png", "b/same.png", "c/same.png", "new\nline.png", "odd-\udcff.png"]
ONE_HOT = np.eye(3, dtype=np.float32)


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    folder = tmp_path / "originals"
    for seed, name in enumerate(NAMES):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        make_image(seed).save(file)
    return folder


def make_one_hot_by_path(dataset: ImageDataset, numbers: list[int]) -> np.ndarray:
    """Return one-hot rows in the order of the ids, so that the n-th path is in cluster `numbers[n]`."""
    order = [
        dataset.read_record(number).path.encode("utf-8", "surrogateescape") for number in range(1, len(numbers) + 1)
    ]
    rank = np.argsort(np.argsort(np.array(order, object)))
    return ONE_HOT[np.array(numbers)[rank]]


@pytest.fixture
def dataset(workspace: Workspace, originals: Path) -> ImageDataset:
    return workspace.import_dataset(str(originals), options=ImportOptions(size=16, workers=1))[0]


def create_export(workspace: Workspace, dataset: ImageDataset, numbers: list[int], *, excluded: int | None = None):
    run = make_run(workspace, dataset, make_one_hot_by_path(dataset, numbers))
    with AnnotationStore(dataset) as annotations:
        ClusterEditor(annotations, Clustering.from_run(run, dataset)).set_name(0, "cats: <big>/small?")
        if excluded is not None:
            annotations.exclude([excluded])
        return RunExport.from_run(run, dataset, annotations.refresh())


@pytest.fixture
def export(workspace: Workspace, dataset: ImageDataset) -> RunExport:
    return create_export(workspace, dataset, [0, 0, 1, 1, 1, 0])


def list_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


EXPECTED = [
    "00-cats_ _big__small_/=1.png",
    "00-cats_ _big__small_/odd-_.png",
    "00-cats_ _big__small_/same.png",
    "01/new_line.png",
    "01/same-2.png",
    "01/same.png",
]


@pytest.mark.parametrize("kind", ["absolute", "relative", "copy"])
def test_write_cluster_folders_creates_one_folder_per_cluster(
    export: RunExport, originals: Path, tmp_path: Path, kind: str
):
    folder = tmp_path / "out"
    assert write_cluster_folders(export, folder, kind) == FoldersReport(6, 2, 0, 0, 0)
    assert list_files(folder) == EXPECTED
    assert (folder / "01/same-2.png").read_bytes() == (originals / "c/same.png").read_bytes()
    assert (folder / EXPECTED[1]).read_bytes() == (originals / NAMES[-1]).read_bytes()
    assert all((folder / path).is_symlink() == (kind != "copy") for path in EXPECTED)
    if kind != "copy":
        assert os.path.isabs(os.readlink(folder / EXPECTED[0])) == (kind == "absolute")
    assert list(tmp_path.glob(".crlc-*")) == []


def test_write_cluster_folders_relative_links_stay_valid_when_all_folders_move(export: RunExport, tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")  # `..` of its target is another folder
    write_cluster_folders(export, tmp_path / "link" / "out", "relative")
    (tmp_path / "moved").mkdir()
    for name in ("originals", "real"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    assert all((tmp_path / "moved/real/out" / path).is_file() for path in EXPECTED)


def test_write_cluster_folders_counts_images_left_out(
    workspace: Workspace, dataset: ImageDataset, originals: Path, tmp_path: Path
):
    make_image(9).save(originals / "later.png")
    workspace.import_dataset(str(originals))
    excluded = next(number for number in range(1, 7) if dataset.read_record(number).path == "=1.png")
    export = create_export(workspace, dataset, [0, 0, 1, 1, 1, 0], excluded=excluded)
    (originals / "a/same.png").unlink()
    for kind in ("absolute", "copy"):
        report = write_cluster_folders(export, tmp_path / kind, kind)
        assert report == FoldersReport(images=4, clusters=2, excluded=1, not_assigned=1, missing=1)
        assert len(list_files(tmp_path / kind)) == 4


def test_write_cluster_folders_needs_a_new_or_empty_folder(export: RunExport, originals: Path, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    write_cluster_folders(export, tmp_path / "empty")
    assert list_files(tmp_path / "empty") == EXPECTED
    with pytest.raises(UsageError, match="is not empty"):
        write_cluster_folders(export, tmp_path / "empty")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="not a folder"):
        write_cluster_folders(export, tmp_path / "file")
    with pytest.raises(UsageError, match="no folder"):
        write_cluster_folders(export, tmp_path / "no" / "out")
    with pytest.raises(UsageError, match="original"):
        write_cluster_folders(export, originals / "out")
    with pytest.raises(UsageError, match="kind='hard' is not allowed"):
        write_cluster_folders(export, tmp_path / "hard", "hard")
    assert not (originals / "out").exists()


def test_write_cluster_folders_refuses_missing_originals(export: RunExport, originals: Path, tmp_path: Path):
    originals.rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="originals"):
        write_cluster_folders(export, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_write_cluster_folders_interrupted_leaves_nothing(export: RunExport, tmp_path: Path):
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_cluster_folders(export, tmp_path / "out", "copy", interrupt)
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.glob(".crlc-*")) == []


def test_write_cluster_folders_copies_images_of_an_array(workspace: Workspace, tmp_path: Path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 20, 24, 3), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", images=pixels)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set.npz"), options=ImportOptions(size=16, workers=1))
    export = create_export(workspace, dataset, [0, 1, 1, 0])
    with pytest.raises(UsageError, match=r"npz.*[Cc]opies"):
        write_cluster_folders(export, tmp_path / "out")
    assert write_cluster_folders(export, tmp_path / "out", "copy").images == 4
    paths = list_files(tmp_path / "out")
    assert [Path(path).suffix for path in paths] == [".png"] * 4
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "out" / paths[0])), pixels[0])


@pytest.mark.skipif(
    os.name != "posix" or not Path("/proc/self").is_dir(), reason="needs a path that cannot be written to"
)
def test_write_cluster_folders_reports_an_unwritable_path(export: RunExport):
    with pytest.raises(CrlcError, match="/proc/self/out cannot be written"):
        write_cluster_folders(export, Path("/proc/self/out"))


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("plain.png", "plain.png"),
        ("a:b|c?.png", "a_b_c_.png"),
        ("..", "_"),
        ("", "_"),
        (".hidden", "_hidden"),
        ("dots. .", "dots"),
        ("con.png", "_con.png"),
        ("COM1", "_COM1"),
        ("comet.png", "comet.png"),
        ("e\u0301.png", "\u00e9.png"),
        ("a\u202egnp.exe", "a_gnp.exe"),
        ("x" * 300 + ".jpeg", "x" * 145 + ".jpeg"),
        ("ü" * 100, "ü" * 75),
    ],
)
def test_make_safe_file_name_replaces_forbidden_characters(name: str, safe: str):
    assert make_safe_file_name(name) == safe


def test_add_number_inserts_it_before_the_suffix():
    assert [add_number(name, 2) for name in ("a.png", "a", "a.tar.gz")] == ["a-2.png", "a-2", "a.tar-2.gz"]
