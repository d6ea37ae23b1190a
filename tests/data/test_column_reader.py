"""Tests of the columns of imported datasets: their values, earlier versions, damaged files, and many images."""

from __future__ import annotations

import os
import time
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from crlc.data.column_reader import list_columns, read_all_columns, read_column
from crlc.data.columns import BUILT_IN_COLUMNS, make_distinct_names, summarize_column
from crlc.data.dataset import ImageDataset
from crlc.data.importer import ImportReport
from crlc.data.manifest import Manifest
from crlc.data.options import ImportOptions
from crlc.errors import NotFoundError, SourceError
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset
from tests.fixtures.images import make_image, save_images
from tests.fixtures.photographs import LENS, MODEL, ORIENTATION, TAKEN, save_photograph

GPS = {1: "N", 2: (48.0, 30.0, 0.0), 3: "W", 4: (11.0, 15.0, 0.0)}


def import_source(workspace: Workspace, source: Path, **options) -> tuple[ImageDataset, ImportReport]:
    settings = ImportOptions(**{"size": 16, "workers": 1, **options})
    return workspace.import_dataset(str(source), name="set", options=settings)


def read_texts(dataset: ImageDataset, name: str) -> list[str]:
    column = read_column(dataset, name)
    return [column.format(row) for row in range(len(column.values))]


def to_seconds(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()


@pytest.fixture
def photographs(tmp_path: Path) -> Path:
    """Return a folder with a photograph, one that is turned, and a screenshot without EXIF block, in this order."""
    folder = tmp_path / "pictures"
    save_photograph(folder / "a" / "1.jpg", 1, {MODEL: "M1", TAKEN: "2020:01:02 03:04:05", LENS: "L"}, GPS)
    save_photograph(folder / "a" / "2.jpg", 2, {MODEL: "M2", ORIENTATION: 6})
    make_image(3, 8, 8).save(folder / "shot.png")
    os.utime(folder / "shot.png", (to_seconds(2021, 7, 1), to_seconds(2021, 7, 1)))
    return folder


def test_columns_of_photographs(workspace: Workspace, photographs: Path):
    dataset, _ = import_source(workspace, photographs)
    assert [info.name for info in list_columns(dataset)] == list(BUILT_IN_COLUMNS)
    assert read_texts(dataset, "taken") == ["2020-01-02 03:04:05", "", ""]
    assert read_texts(dataset, "camera") == ["M1", "M2", ""]
    assert read_texts(dataset, "lens") == ["L", "", ""]
    np.testing.assert_allclose(read_column(dataset, "latitude").values, [48.5, np.nan, np.nan])
    np.testing.assert_allclose(read_column(dataset, "longitude").values, [-11.25, np.nan, np.nan])
    assert read_column(dataset, "width").values.tolist() == [40, 30, 8]
    assert read_column(dataset, "height").values.tolist() == [30, 40, 8]
    sizes = [(photographs / path).stat().st_size for path in ("a/1.jpg", "a/2.jpg", "shot.png")]
    assert read_column(dataset, "file_size").values.tolist() == sizes
    assert read_texts(dataset, "folder") == ["a", "a", "."]
    assert read_column(dataset, "brightness").is_known.all()
    assert set(read_texts(dataset, "quality")) <= {"blurred", "dark", "good", "uniform"}


def test_file_date_is_local_time(workspace: Workspace, photographs: Path, monkeypatch: pytest.MonkeyPatch):
    dataset, _ = import_source(workspace, photographs)
    try:
        for zone, text in (("UTC0", "2021-07-01"), ("XYZ-5:30", "2021-07-01 05:30:00")):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert read_texts(dataset, "file_date")[2] == text
    finally:
        monkeypatch.undo()
        time.tzset()


def test_values_follow_the_given_ids(workspace: Workspace, photographs: Path):
    dataset, _ = import_source(workspace, photographs)
    column = read_column(dataset, "camera", np.array([3, 2, 99, 1]))
    assert [column.format(row) for row in range(4)] == ["", "M2", "", "M1"]
    assert np.isnan(read_column(dataset, "width", np.array([99])).values[0])


def test_column_of_an_unknown_name_is_refused(workspace: Workspace, photographs: Path):
    dataset, _ = import_source(workspace, photographs)
    with pytest.raises(NotFoundError, match="altitude") as caught:
        read_column(dataset, "altitude")
    assert "camera" in caught.value.advice


def test_zip_members_have_the_date_that_the_archive_stores(workspace: Workspace, photographs: Path, tmp_path: Path):
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as target:
        target.writestr(zipfile.ZipInfo("x/1.jpg", (2019, 8, 7, 6, 5, 4)), (photographs / "a/1.jpg").read_bytes())
        target.writestr(zipfile.ZipInfo("x/2.jpg", (1980, 0, 0, 0, 0, 0)), (photographs / "a/2.jpg").read_bytes())
    dataset, _ = import_source(workspace, archive)
    assert read_texts(dataset, "file_date") == ["2019-08-07 06:05:04", ""]
    assert read_texts(dataset, "folder") == ["x", "x"]


def test_changed_files_get_new_values_and_others_keep_theirs(workspace: Workspace, photographs: Path):
    import_source(workspace, photographs)
    save_photograph(photographs / "a" / "1.jpg", 7, {MODEL: "M9"})
    dataset, report = import_source(workspace, photographs)
    assert report.changes.changed == 1
    assert read_texts(dataset, "camera") == ["M9", "M2", ""]
    assert "taken" not in [info.name for info in list_columns(dataset)]  # no image has it any more


def test_another_size_keeps_the_statistics(workspace: Workspace, photographs: Path):
    dataset, _ = import_source(workspace, photographs)
    before = read_column(dataset, "sharpness").values
    dataset, _ = import_source(workspace, photographs, size=64)
    np.testing.assert_array_equal(read_column(dataset, "sharpness").values, before)


@pytest.mark.parametrize("workers", [1, 2])
def test_dataset_of_an_earlier_version_is_completed_by_an_import(workspace: Workspace, tmp_path: Path, workers: int):
    folder = tmp_path / "pictures"
    save_images(folder, 70)
    save_photograph(folder / "photo.jpg", 1, {MODEL: "M1"})
    dataset, _ = import_source(workspace, folder)
    expected = [column.values for column in read_all_columns(dataset)]
    with Manifest(dataset.folder) as manifest:
        manifest.connection.executescript("DROP TABLE photo_values; DROP TABLE list_columns;")
    assert [info.name for info in list_columns(dataset)] == ["width", "height", "file_size", "file_date"]
    pixels = (dataset.folder / "pixels" / "16.u8").stat().st_mtime_ns
    os.remove(folder / "00000.png")  # its pixels are stored, and stay
    (folder / "00000.png").symlink_to(tmp_path / "gone")
    dataset, _ = import_source(workspace, folder, workers=workers)
    found = [column.values for column in read_all_columns(dataset)]
    for one, before in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, before[1:])
    assert (dataset.folder / "pixels" / "16.u8").stat().st_mtime_ns == pixels  # nothing was decoded


# ---- lists


def write_list(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    save_images(folder, 4)
    file = folder / "list.csv"
    file.write_text(text, encoding=encoding)
    return file


LIST = (
    "path;Score;when;City;note;camera\n00000.png;1.5;2024-05-01;Bonn;=x;C1\n00001.png;;2024-06-01 10:00;Köln;y;C1\n"
    "00002.png;-2;;Köln;z;\n00003.png;3;2023-01-01;Bonn\n"
)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_further_columns_of_a_list_are_typed(workspace: Workspace, tmp_path: Path, encoding: str):
    dataset, report = import_source(workspace, write_list(tmp_path / "in", LIST, encoding))
    assert report.ignored_columns == 0
    found = {info.name: info.kind for info in list_columns(dataset) if info.origin == "list"}
    assert found == {
        "Score": "number",
        "when": "date",
        "City": "category",
        "note": "text",
        "list_camera": "category",  # `camera` is the one of the EXIF block
    }
    np.testing.assert_array_equal(read_column(dataset, "Score").values, [1.5, np.nan, -2, 3])
    assert read_texts(dataset, "when") == ["2024-05-01", "2024-06-01 10:00:00", "", "2023-01-01"]
    assert read_texts(dataset, "City") == ["Bonn", "Köln", "Köln", "Bonn"]
    assert read_texts(dataset, "note") == ["=x", "y", "z", ""]


def test_importing_a_changed_list_replaces_its_columns(workspace: Workspace, tmp_path: Path):
    import_source(workspace, write_list(tmp_path / "in", LIST))
    (tmp_path / "in" / "list.csv").write_text("path,Score,new\n00000.png,high,1\n00003.png,low,2\n")
    dataset, _ = import_source(workspace, tmp_path / "in" / "list.csv")
    assert {info.name: info.kind for info in list_columns(dataset) if info.origin == "list"} == {
        "Score": "text",
        "new": "number",
    }
    assert read_column(dataset, "new").values.tolist() == [1, 2]


def test_columns_of_a_list_with_strange_headers_are_distinct(workspace: Workspace, tmp_path: Path):
    text = "path,a,a,,A,quality,list_quality,class\n00000.png,1,2,3,4,5,6,dog\n00001.png,1,2,3,4,5,6,cat\n"
    dataset, _ = import_source(workspace, write_list(tmp_path / "in", text))
    names = [info.name for info in list_columns(dataset) if info.origin == "list"]
    assert names == ["a", "a 2", "A", "list_list_quality", "list_quality"]
    assert [read_column(dataset, name).values[0] for name in names] == [1, 2, 4, 5, 6]


def test_folders_of_a_list_of_absolute_paths_start_below_their_common_folder(workspace: Workspace, tmp_path: Path):
    files = [*save_images(tmp_path / "photos" / "cat", 2), *save_images(tmp_path / "photos" / "cow" / "old", 1)]
    table = tmp_path / "list.csv"
    table.write_text("path\n" + "".join(f"{file}\n" for file in files))
    dataset, _ = import_source(workspace, table)
    assert read_texts(dataset, "folder") == ["cat", "cat", "cow/old"]
    assert read_column(dataset, "folder", np.array([3])).format(0) == "cow/old"  # also of a part of the images
    table.write_text(f"path\n{files[0]}\n{files[1]}\n")
    dataset, _ = import_source(workspace, table)
    assert read_texts(dataset, "folder") == [str(tmp_path / "photos" / "cat")] * 2


def test_column_without_any_value_is_left_out(workspace: Workspace, tmp_path: Path):
    files = save_images(tmp_path, 2)
    table = tmp_path / "list.csv"
    table.write_text(f"path,a,empty,b\n{files[0]},1,,x\n{files[1]},2,n/a,y\n")
    dataset, _ = import_source(workspace, table)
    assert [info.name for info in list_columns(dataset) if info.origin == "list"] == ["a", "b"]
    assert (read_texts(dataset, "a"), read_texts(dataset, "b")) == (["1", "2"], ["x", "y"])
    table.write_text(f"path,empty\n{files[0]},\n{files[1]},\n")
    dataset, _ = import_source(workspace, table)
    assert [info.name for info in list_columns(dataset) if info.origin == "list"] == []


def test_missing_files_of_a_list_have_one_reason(workspace: Workspace, tmp_path: Path):
    (tmp_path / "list.csv").write_text("path\na.jpg\nb.jpg\n")
    with pytest.raises(SourceError, match=r"among 2 files: 2 x the file does not exist\..* only as vectors"):
        import_source(workspace, tmp_path / "list.csv")
    save_images(tmp_path, 1)
    (tmp_path / "list.csv").write_text("path\na.jpg\nb.jpg\n00000.png\n")
    _, report = import_source(workspace, tmp_path / "list.csv")
    assert report.unreadable == {"the file does not exist": 2}


def test_columns_beyond_the_limit_are_ignored_and_counted(workspace: Workspace, tmp_path: Path):
    header = ",".join(f"f{number}" for number in range(130))
    row = ",".join(str(number) for number in range(130))
    dataset, report = import_source(workspace, write_list(tmp_path / "in", f"path,{header}\n00000.png,{row}\n"))
    assert report.ignored_columns == 30
    assert read_column(dataset, "f99").values.tolist() == [99]


def test_distinct_names_avoid_taken_ones():
    assert make_distinct_names(["a", "run", "list_run"], ("run",)) == ["a", "list_list_run", "list_run"]


# ---- summaries, many images


def test_summary_counts_values_and_missing_ones(workspace: Workspace, tmp_path: Path):
    dataset, _ = import_source(workspace, write_list(tmp_path / "in", LIST))
    score = summarize_column(read_column(dataset, "Score"))
    assert (score.known, score.missing, score.distinct, score.low, score.high) == (3, 1, 3, -2, 3)
    city = summarize_column(read_column(dataset, "City"), most_frequent=1)
    assert (city.frequent, city.distinct, city.low) == ((("Bonn", 2),), 2, None)


def test_columns_of_many_images_are_read_at_once(tmp_path: Path):
    count = 150_000  # more than two blocks of ids
    dataset = write_handmade_dataset(tmp_path, build_numbered_paths(count))
    with Manifest(dataset.folder, create=True) as manifest, manifest.transaction():
        manifest.connection.executemany(
            "INSERT INTO photo_values (id, taken, camera) VALUES (?, ?, ?)",
            ((number, 1e9 + number, f"c{number % 3}") for number in range(2, count, 2)),
        )
    started = time.process_time()
    taken, camera = read_column(dataset, "taken"), read_column(dataset, "camera")
    assert time.process_time() - started < 10  # of computing; row by row in Python takes longer
    ids = np.arange(1, count + 1)
    has_value = (ids % 2 == 0) & (ids < count)
    np.testing.assert_array_equal(taken.values, np.where(has_value, 1e9 + ids, np.nan))
    np.testing.assert_array_equal(camera.values, np.where(has_value, ids % 3, -1))
