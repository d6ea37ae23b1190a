"""Labels from and to CSV files."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError, SourceError
from crlc.workspace.annotations import Annotations
from crlc.workspace.image_lookup import find_images
from crlc.workspace.label_table import import_labels, read_labels, write_labels
from tests.workspace.handmade import handmade_dataset, remove_image

PATHS = [
    "a.png",
    "sub/b.png",
    "sub/c d.png",
    "=formula.png",
    "back\\slash.png",
    "back\\\\slash.png",
    "\udcff.png",
    "12",
]


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    return tmp_path / "originals"


@pytest.fixture
def dataset(tmp_path: Path, originals: Path) -> ImageDataset:
    return handmade_dataset(tmp_path / "workspace", PATHS, location=str(originals))


@pytest.fixture
def annotations(dataset: ImageDataset) -> Iterator[Annotations]:
    with Annotations(dataset) as opened:
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


def test_an_import_is_one_step(annotations: Annotations, dataset: ImageDataset, file: Path, originals: Path):
    annotations.label([1, 2], "cat")
    lines = ["path,label", "a.png,cat", f"{originals}/sub/b.png,dog", "sub/c d.png,dog", "none.png,cat", "12,", ",", ""]
    file.write_text("\n".join(lines))
    report = import_labels(annotations, dataset, file)
    assert (report.matched, report.changed, report.unchanged) == (3, 2, 1)
    assert (report.unknown, report.first_unknown, report.blank) == (1, ("none.png",), 1)
    assert annotations.refresh().labels([1, 2, 3, 8]) == ["cat", "dog", "dog", None]
    assert annotations.history()[0].title == "import the labels of 3 images from labels.csv"
    again = import_labels(annotations, dataset, file)
    assert (again.matched, again.changed, again.unchanged) == (3, 0, 3)
    annotations.undo()
    assert annotations.refresh().labels([1, 2, 3]) == ["cat", "cat", None]
    assert len(annotations.history()) == 2


@pytest.mark.parametrize("header", ["path,label", "File,Name", "image; LABEL ", "\ufefffilename\tlabel"])
def test_headers_and_delimiters(annotations: Annotations, dataset: ImageDataset, file: Path, header: str):
    delimiter = next(mark for mark in ",;\t" if mark in header)
    file.write_text(f"{header}\nsub/b.png{delimiter}größe\n", encoding="utf-8")
    import_labels(annotations, dataset, file)
    assert annotations.refresh().label(2) == "größe"


def test_ids_count_where_there_are_no_paths(annotations: Annotations, dataset: ImageDataset, file: Path):
    file.write_text("label,id\ncat,2\ndog,99\n")
    assert import_labels(annotations, dataset, file).first_unknown == ("99",)
    file.write_text("label,id,path\ndog,2,a.png\n")
    import_labels(annotations, dataset, file)
    assert annotations.refresh().labels([1, 2]) == ["dog", "cat"]


def test_ways_to_write_a_path(dataset: ImageDataset, originals: Path, file: Path):
    ways = {
        "./a.png": 1,
        " sub/b.png ": 2,
        "sub\\b.png": 2,
        f"{originals}/a.png": 1,
        f"{originals}/../originals/sub/c d.png": 3,
        "originals/a.png": 1,  # seen from the folder of the table
        "'=formula.png": 4,
        "=formula.png": 4,
        "back\\slash.png": 5,
        "\\xff.png": 7,
    }
    for written, number in ways.items():
        file.write_text(f'path,label\n"{written}",x\n')
        assert read_labels(file, dataset).labels == {number: "x"}, written


def test_what_is_written_comes_back_without_loss(annotations: Annotations, dataset: ImageDataset, tmp_path: Path):
    names = ["=1+1", "'quoted", "größe", 'with "marks", and commas', "-", "cat", "@x", "b"]
    for number, name in enumerate(names, start=1):
        annotations.label([number], name)
    stream = io.StringIO(newline="")
    assert write_labels(dataset, annotations.refresh(), stream) == 8
    (tmp_path / "out.csv").write_bytes(stream.getvalue().encode())
    assert stream.getvalue().splitlines()[:5] == [
        "path,label",
        "a.png,'=1+1",
        "sub/b.png,''quoted",
        "sub/c d.png,größe",
        '\'=formula.png,"with ""marks"", and commas"',
    ]
    table = read_labels(tmp_path / "out.csv", dataset)
    assert table.labels == dict(enumerate(names, start=1))
    assert not table.contradictions


def test_contradictions_are_listed_and_refused(annotations: Annotations, dataset: ImageDataset, file: Path, originals):
    file.write_text(f"path,label\na.png,cat\nsub/b.png,dog\n{originals}/a.png,dog\na.png,cat\n")
    with pytest.raises(CrlcError, match=r"gives 1 image two labels: .*/a.png is 'cat' in line 2 and 'dog' in line 4"):
        import_labels(annotations, dataset, file)
    (found,) = read_labels(file, dataset).contradictions
    assert (found.labels, found.lines) == (("cat", "dog"), (2, 4))
    assert annotations.history() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"lacks a column: one of images \(path, .*\) and one of labels \(label, name\). .* holds: nothing"),
        (b"picture,tag\na.png,x", r"Its first line holds: picture, tag"),
        (b"path,tag\na.png,x", r"lacks a column: one of labels \(label, name\). Its first line holds: path, tag"),
        (b"label\nx", "lacks a column: one of images"),
        (b"path,label\na.png,\n", "labels no image of set: no line has a label"),
        (b"path,label\nz.png,x\n", "labels no image of set: it names z.png. Paths are those inside .*originals"),
        (b"path,label\na.png,a\x07b\n", "line 2: label='a.x07b' is not allowed.*Nothing was changed"),
        (b"path,label\nsub/b.png,ok\na.png," + b"x" * 300, "line 3: .*the most is 200"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "lacks a column"),
    ],
)
def test_files_that_cannot_be_used(annotations: Annotations, dataset: ImageDataset, file: Path, content, words: str):
    file.write_bytes(content)
    with pytest.raises(CrlcError, match=words):
        import_labels(annotations, dataset, file)
    assert annotations.history() == []
    with pytest.raises(SourceError, match="cannot be opened"):
        import_labels(annotations, dataset, file.with_name("nothing.csv"))


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_windows_text_is_read_as_such(annotations: Annotations, dataset: ImageDataset, file: Path, encoding: str):
    file.write_bytes("path;label\na.png;größe\n".encode(encoding))
    import_labels(annotations, dataset, file)
    assert annotations.refresh().label(1) == "größe"


def test_labels_of_images_that_are_away_are_exported_too(annotations: Annotations, dataset: ImageDataset):
    annotations.label([1, 2], "cat")
    remove_image(dataset, 1)
    stream = io.StringIO(newline="")
    assert write_labels(dataset, annotations.refresh(), stream) == 2


# ---- one image


def test_images_are_found_by_path_or_id(dataset: ImageDataset, originals: Path, monkeypatch: pytest.MonkeyPatch):
    assert find_images(dataset, ["sub/b.png", "3", f"{originals}/a.png", "\udcff.png"]).tolist() == [2, 3, 1, 7]
    assert find_images(dataset, ["12"]).tolist() == [8]  # a path of that name goes before an id
    os.makedirs(originals / "sub")
    monkeypatch.chdir(originals / "sub")
    assert find_images(dataset, ["b.png"]).tolist() == [2]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("b.png", "no readable image 'b.png'. Did you mean 'sub/b.png'"),
        ("sub/bb.png", "Did you mean 'sub/b.png'"),
        ("99", "no readable image '99'. Ids go up to 8"),
        ("completely different", "no readable image 'completely different'"),
        ("²", "no readable image"),
    ],
)
def test_the_nearest_image_is_offered(dataset: ImageDataset, given: str, words: str):
    with pytest.raises(NotFoundError, match=words):
        find_images(dataset, [given])
