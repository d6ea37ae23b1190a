"""Folders of links and copies, on a real file system with odd names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.config import ImportOptions
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, SourceError, UsageError
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.clusterings import ClusterEditor, Clustering
from crlc.workspace.export.file_names import numbered_name, safe_file_name
from crlc.workspace.export.links import LinksReport, write_links
from crlc.workspace.export.rows import RunExport
from tests.pictures import picture
from tests.workspace.test_export_rows import make_run

# By the bytes of their paths; the run puts the first two and the last into cluster 0, the others into 1.
NAMES = ["=1.png", "a/same.png", "b/same.png", "c/same.png", "new\nline.png", "odd-\udcff.png"]
ONE_HOT = np.eye(3, dtype=np.float32)


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    folder = tmp_path / "originals"
    for seed, name in enumerate(NAMES):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        picture(seed).save(file)
    return folder


Exporter = Callable[..., RunExport]


def clusters_by_path(dataset: ImageDataset, numbers: list[int]) -> np.ndarray:
    """One-hot rows in the order of ids, so that the n-th path has the n-th number."""
    order = [dataset.record(number).path.encode("utf-8", "surrogateescape") for number in range(1, len(numbers) + 1)]
    rank = np.argsort(np.argsort(np.array(order, object)))
    return ONE_HOT[np.array(numbers)[rank]]


@pytest.fixture
def dataset(workspace: Workspace, originals: Path) -> ImageDataset:
    return workspace.import_dataset(str(originals), options=ImportOptions(size=16, workers=1))[0]


def exported(workspace: Workspace, dataset: ImageDataset, numbers: list[int], *, excluded: int | None = None):
    run = make_run(workspace, dataset, clusters_by_path(dataset, numbers))
    with Annotations(dataset) as annotations:
        ClusterEditor(annotations, Clustering.of(run, dataset)).name(0, "cats: <big>/small?")
        if excluded is not None:
            annotations.exclude([excluded])
        return RunExport.of(run, dataset, annotations.refresh())


@pytest.fixture
def export(workspace: Workspace, dataset: ImageDataset) -> RunExport:
    return exported(workspace, dataset, [0, 0, 1, 1, 1, 0])


def tree(folder: Path) -> list[str]:
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
def test_a_folder_for_each_cluster(export: RunExport, originals: Path, tmp_path: Path, kind: str):
    folder = tmp_path / "out"
    assert write_links(export, folder, kind) == LinksReport(6, 2, 0, 0, 0)
    assert tree(folder) == EXPECTED
    assert (folder / "01/same-2.png").read_bytes() == (originals / "c/same.png").read_bytes()
    assert (folder / EXPECTED[1]).read_bytes() == (originals / NAMES[-1]).read_bytes()
    assert all((folder / path).is_symlink() == (kind != "copy") for path in EXPECTED)
    if kind != "copy":
        assert os.path.isabs(os.readlink(folder / EXPECTED[0])) == (kind == "absolute")
    assert list(tmp_path.glob(".crlc-*")) == []


def test_relative_links_live_on_when_everything_moves(export: RunExport, tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to("real")  # `..` out of it would not lead back here
    write_links(export, tmp_path / "way" / "out", "relative")
    (tmp_path / "moved").mkdir()
    for name in ("originals", "real"):
        (tmp_path / name).rename(tmp_path / "moved" / name)
    assert all((tmp_path / "moved/real/out" / path).is_file() for path in EXPECTED)


def test_what_is_left_out_is_counted(workspace: Workspace, dataset: ImageDataset, originals: Path, tmp_path: Path):
    picture(9).save(originals / "later.png")
    workspace.import_dataset(str(originals))
    excluded = next(number for number in range(1, 7) if dataset.record(number).path == "=1.png")
    export = exported(workspace, dataset, [0, 0, 1, 1, 1, 0], excluded=excluded)
    (originals / "a/same.png").unlink()
    for kind in ("absolute", "copy"):
        report = write_links(export, tmp_path / kind, kind)
        assert report == LinksReport(images=4, clusters=2, excluded=1, not_assigned=1, missing=1)
        assert len(tree(tmp_path / kind)) == 4


def test_an_empty_folder_is_taken_another_is_not(export: RunExport, originals: Path, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    write_links(export, tmp_path / "empty")
    assert tree(tmp_path / "empty") == EXPECTED
    with pytest.raises(UsageError, match="is not empty"):
        write_links(export, tmp_path / "empty")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is no folder"):
        write_links(export, tmp_path / "file")
    with pytest.raises(UsageError, match="there is no folder"):
        write_links(export, tmp_path / "no" / "out")
    with pytest.raises(UsageError, match="lies among the originals"):
        write_links(export, originals / "out")
    with pytest.raises(UsageError, match="kind='hard' is not allowed"):
        write_links(export, tmp_path / "hard", "hard")
    assert not (originals / "out").exists()


def test_originals_that_moved(export: RunExport, originals: Path, tmp_path: Path):
    originals.rename(tmp_path / "elsewhere")
    with pytest.raises(SourceError, match="relink originals NEW-PATH"):
        write_links(export, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_interruption_leaves_nothing(export: RunExport, tmp_path: Path):
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_links(export, tmp_path / "out", "copy", interrupt)
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.glob(".crlc-*")) == []


def test_images_of_an_array_can_only_be_copied(workspace: Workspace, tmp_path: Path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 20, 24, 3), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", images=pixels)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set.npz"), options=ImportOptions(size=16, workers=1))
    export = exported(workspace, dataset, [0, 1, 1, 0])
    with pytest.raises(UsageError, match=r"are no single files \(it comes from: npz\).*--copy"):
        write_links(export, tmp_path / "out")
    assert write_links(export, tmp_path / "out", "copy").images == 4
    paths = tree(tmp_path / "out")
    assert [Path(path).suffix for path in paths] == [".png"] * 4
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "out" / paths[0])), pixels[0])


@pytest.mark.skipif(os.name != "posix" or not Path("/proc/self").is_dir(), reason="needs a place nobody can write to")
def test_a_place_that_cannot_be_written(export: RunExport):
    with pytest.raises(CrlcError, match="/proc/self/out cannot be written"):
        write_links(export, Path("/proc/self/out"))


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
def test_names_that_every_system_takes(name: str, safe: str):
    assert safe_file_name(name) == safe


def test_numbers_come_before_the_ending():
    assert [numbered_name(name, 2) for name in ("a.png", "a", "a.tar.gz")] == ["a-2.png", "a-2", "a.tar-2.gz"]
