"""Vectors imported with a dataset: matched by path or in order, stored by image, missing images as points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.data.column_reader import list_columns, read_all_columns
from crlc.data.dataset import ImageDataset
from crlc.data.feature_shards import FeatureCache, build_feature_keys
from crlc.data.imported_vectors import count_images_without_vectors, import_vectors, read_imported_vectors
from crlc.data.options import ImportOptions
from crlc.data.originals import find_missing_originals
from crlc.data.placeholders import make_placeholder
from crlc.data.thumbnails import make_thumbnail
from crlc.errors import DamagedError, SourceError
from crlc.services.duplicate_review import find_duplicate_sets
from crlc.workspace import Workspace
from tests.fixtures.images import save_images
from tests.fixtures.mutations import break_array_header
from tests.fixtures.tiny_run import import_tiny_dataset

ROWS = np.arange(36, dtype=np.float32).reshape(12, 3)


@pytest.fixture
def dataset(workspace: Workspace, tmp_path: Path) -> ImageDataset:
    """Return twelve images with ids 1 to 12 in the order of their paths."""
    return import_tiny_dataset(workspace, tmp_path / "set")


def read_stored(dataset: ImageDataset, ids: list[int]) -> list[list[float]]:
    vectors = read_imported_vectors(dataset)
    numbers = np.array(ids)
    keys = build_feature_keys(numbers, dataset.read_content_versions(numbers))
    return FeatureCache(dataset.folder / "features" / vectors.folder_name).read(keys).tolist()


def test_vectors_in_order_belong_to_images_sorted_by_path(dataset: ImageDataset, tmp_path: Path):
    np.save(tmp_path / "v.npy", ROWS)
    report = import_vectors(dataset, tmp_path / "v.npy")
    assert (report.is_by_path, report.unmatched, report.vectors.count) == (False, 0, 12)
    assert read_stored(dataset, [1, 12, 5]) == ROWS[[0, 11, 4]].tolist()
    assert report.vectors.backbone == f"vectors/3-{report.vectors.digest}"
    again = import_vectors(dataset, tmp_path / "v.npy")  # the same vectors: nothing is stored twice
    assert again.vectors == report.vectors
    assert [folder.name for folder in (dataset.folder / "features").iterdir()] == [report.vectors.folder_name]


def test_vectors_by_path_accept_any_order_absolute_paths_and_other_images(dataset: ImageDataset, tmp_path: Path):
    paths = [f"{name}/{number:05}.png" for name in "abc" for number in range(4)]
    given = [*paths[::-1], "elsewhere.png"]
    given[0] = str(tmp_path / "set" / given[0])
    np.savez(tmp_path / "v.npz", vectors=np.concatenate([ROWS[::-1], ROWS[:1]]), paths=np.array(given))
    report = import_vectors(dataset, tmp_path / "v.npz")
    assert (report.is_by_path, report.unmatched, report.vectors.count) == (True, 1, 12)
    assert read_stored(dataset, list(range(1, 13))) == ROWS.tolist()


def test_wrong_vectors_change_nothing(dataset: ImageDataset, tmp_path: Path):
    np.save(tmp_path / "good.npy", ROWS.astype(np.float16))
    before = import_vectors(dataset, tmp_path / "good.npy").vectors
    assert before.precision == "float16"
    np.save(tmp_path / "few.npy", ROWS[:11])
    infinite = ROWS.copy()
    infinite[7, 1] = np.inf
    np.save(tmp_path / "infinite.npy", infinite)
    np.savez(tmp_path / "lost.npz", vectors=ROWS[:2], paths=np.array(["x.png", "y.png"]))
    np.savez(tmp_path / "part.npz", vectors=ROWS[:2], paths=np.array(["a/00000.png", "a/00001.png"]))
    np.savez(tmp_path / "twice.npz", vectors=ROWS[:2], paths=np.array(["a/00000.png", "./a/00000.png"]))
    for name, words in (
        ("few.npy", "11 vectors, but set has 12 images"),
        ("infinite.npy", "row 8"),
        ("lost.npz", "None of the 2 paths"),
        ("part.npz", "no vector for 10 images of set: a/00002.png"),
        ("twice.npz", "more than one vector"),
    ):
        with pytest.raises(SourceError, match=words):
            import_vectors(dataset, tmp_path / name)
    assert read_imported_vectors(dataset) == before
    assert len(list((dataset.folder / "features").iterdir())) == 1


def test_images_added_later_have_no_vectors(workspace: Workspace, dataset: ImageDataset, tmp_path: Path):
    np.save(tmp_path / "v.npy", ROWS)
    vectors = import_vectors(dataset, tmp_path / "v.npy").vectors
    assert count_images_without_vectors(dataset, vectors) == 0
    save_images(tmp_path / "set" / "d", 2, first_seed=50)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    assert count_images_without_vectors(dataset, vectors) == 2


def test_missing_files_of_a_list_are_points(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path, 1)
    lines = ["00000.png", *(f"gone/{number}.jpg" for number in range(9))]
    (tmp_path / "list.csv").write_text("\n".join(["path", *lines]))
    dataset, report = workspace.import_dataset(str(tmp_path / "list.csv"), options=ImportOptions(placeholders=True))
    assert (report.readable, report.unreadable, report.duplicates) == (10, {}, 0)
    np.save(tmp_path / "v.npy", ROWS[:10])
    import_vectors(dataset, tmp_path / "v.npy")
    assert read_stored(dataset, [2]) == [ROWS[1].tolist()]  # in the order of the list, not of the paths
    assert make_thumbnail(dataset, 5, 64).media_type == "image/png"
    assert find_duplicate_sets(dataset) == []
    assert find_missing_originals(dataset) is None
    dataset, report = workspace.import_dataset(str(tmp_path / "list.csv"))  # points stay points
    assert (report.readable, report.changes.new) == (10, 0)
    (tmp_path / "gone").mkdir()
    Image.new("RGB", (20, 20), "red").save(tmp_path / "gone" / "3.jpg")
    _, report = workspace.import_dataset(str(tmp_path / "list.csv"))
    assert (report.readable, report.changes.changed) == (10, 1)


def test_placeholders_have_neither_size_nor_statistics(workspace: Workspace, tmp_path: Path):
    (tmp_path / "list.csv").write_text("path,city\ngone/1.jpg,Bonn\ngone/2.jpg,Rom\n")
    options = ImportOptions(placeholders=True, workers=1)
    stages: list[str] = []
    for _ in range(2):  # the second import must not measure them either
        dataset, _ = workspace.import_dataset(
            str(tmp_path / "list.csv"), options=options, report=lambda progress: stages.append(progress.stage)
        )
        assert [info.name for info in list_columns(dataset)] == ["folder", "city"]
    assert "Reading metadata" not in stages
    assert [(one.width, one.height) for one in (dataset.read_record(1), dataset.read_record(2))] == [(None, None)] * 2
    (tmp_path / "gone").mkdir()
    Image.new("RGB", (40, 30), "red").save(tmp_path / "gone" / "2.jpg")
    dataset, _ = workspace.import_dataset(str(tmp_path / "list.csv"))
    columns = {column.info.name: [column.format(row) for row in range(2)] for column in read_all_columns(dataset)}
    assert (columns["width"], columns["height"], columns["quality"]) == (["", "40 px"], ["", "30 px"], ["", "uniform"])
    assert all(columns[name][0] == "" and columns[name][1] for name in ("file_size", "file_date", "brightness"))


def test_placeholders_depend_on_the_path_alone():
    assert make_placeholder("a") == make_placeholder("a")
    assert len({make_placeholder(f"{number}") for number in range(200)}) == 200


def test_damaged_vectors_are_a_clear_error_until_they_are_imported_again(dataset: ImageDataset, tmp_path: Path):
    np.save(tmp_path / "v.npy", ROWS)
    vectors = import_vectors(dataset, tmp_path / "v.npy").vectors
    (keys_file,) = (dataset.folder / "features" / vectors.folder_name).glob("*.keys.npy")
    break_array_header(keys_file)
    with pytest.raises(DamagedError, match=r"keys\.npy are damaged\. Import the vectors again"):
        count_images_without_vectors(dataset, vectors)
    (dataset.folder / "vectors.json").write_text("{")
    with pytest.raises(DamagedError, match=r"vectors\.json .* Import the vectors again"):
        read_imported_vectors(dataset)
    assert import_vectors(dataset, tmp_path / "v.npy").vectors == vectors
    assert read_imported_vectors(dataset) == vectors
    assert count_images_without_vectors(dataset, vectors) == 0
    assert read_stored(dataset, [1, 12]) == ROWS[[0, 11]].tolist()
