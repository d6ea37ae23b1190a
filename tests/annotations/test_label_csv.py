"""Import and export of labels as CSV files."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crlc.annotations.label_csv import import_label_file, read_label_file, write_label_file
from crlc.annotations.store import AnnotationStore
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import find_image_ids
from crlc.errors import CrlcError, NotFoundError, SourceError
from tests.fixtures.handmade_dataset import remove_image, write_handmade_dataset

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
    return write_handmade_dataset(tmp_path / "workspace", PATHS, location=str(originals))


@pytest.fixture
def annotations(dataset: ImageDataset) -> Iterator[AnnotationStore]:
    with AnnotationStore(dataset) as opened:
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


def test_import_records_one_operation(annotations: AnnotationStore, dataset: ImageDataset, file: Path, originals: Path):
    annotations.label([1, 2], "cat")
    lines = ["path,label", "a.png,cat", f"{originals}/sub/b.png,dog", "sub/c d.png,dog", "none.png,cat", "12,", ",", ""]
    file.write_text("\n".join(lines))
    report = import_label_file(annotations, dataset, file)
    assert (report.matched, report.changed, report.unchanged) == (3, 2, 1)
    assert (report.unknown, report.first_unknown, report.blank) == (1, ("none.png",), 1)
    assert annotations.refresh().get_labels([1, 2, 3, 8]) == ["cat", "dog", "dog", None]
    assert annotations.read_history()[0].title == "import the labels of 3 images from labels.csv"
    again = import_label_file(annotations, dataset, file)
    assert (again.matched, again.changed, again.unchanged) == (3, 0, 3)
    annotations.undo()
    assert annotations.refresh().get_labels([1, 2, 3]) == ["cat", "cat", None]
    assert len(annotations.read_history()) == 2


@pytest.mark.parametrize("header", ["path,label", "File,Name", "image; LABEL ", "\ufefffilename\tlabel"])
def test_import_accepts_several_column_names_and_delimiters(
    annotations: AnnotationStore, dataset: ImageDataset, file: Path, header: str
):
    delimiter = next(mark for mark in ",;\t" if mark in header)
    file.write_text(f"{header}\nsub/b.png{delimiter}größe\n", encoding="utf-8")
    import_label_file(annotations, dataset, file)
    assert annotations.refresh().get_label(2) == "größe"


def test_import_uses_ids_if_there_is_no_path_column(annotations: AnnotationStore, dataset: ImageDataset, file: Path):
    file.write_text("label,id\ncat,2\ndog,99\n")
    assert import_label_file(annotations, dataset, file).first_unknown == ("99",)
    file.write_text("label,id,path\ndog,2,a.png\n")
    import_label_file(annotations, dataset, file)
    assert annotations.refresh().get_labels([1, 2]) == ["dog", "cat"]


def test_read_label_file_finds_images_by_any_spelling_of_the_path(dataset: ImageDataset, originals: Path, file: Path):
    spellings = {
        "./a.png": 1,
        " sub/b.png ": 2,
        "sub\\b.png": 2,
        f"{originals}/a.png": 1,
        f"{originals}/../originals/sub/c d.png": 3,
        "originals/a.png": 1,  # relative to the folder of the CSV file
        "'=formula.png": 4,
        "=formula.png": 4,
        "back\\slash.png": 5,
        "\\xff.png": 7,
    }
    for written, number in spellings.items():
        file.write_text(f'path,label\n"{written}",x\n')
        assert read_label_file(file, dataset).labels.to_mapping() == {number: "x"}, written


def test_export_and_read_label_file_are_lossless(annotations: AnnotationStore, dataset: ImageDataset, tmp_path: Path):
    names = ["=1+1", "'quoted", "größe", 'with "marks", and commas', "-", "cat", "@x", "b"]
    for number, name in enumerate(names, start=1):
        annotations.label([number], name)
    stream = io.StringIO(newline="")
    assert write_label_file(dataset, annotations.refresh(), stream) == 8
    (tmp_path / "out.csv").write_bytes(stream.getvalue().encode())
    assert stream.getvalue().splitlines()[:5] == [
        "path,label",
        "a.png,'=1+1",
        "sub/b.png,''quoted",
        "sub/c d.png,größe",
        '\'=formula.png,"with ""marks"", and commas"',
    ]
    table = read_label_file(tmp_path / "out.csv", dataset)
    assert table.labels.to_mapping() == dict(enumerate(names, start=1))
    assert not table.contradictions


def test_import_lists_and_refuses_contradictions(
    annotations: AnnotationStore, dataset: ImageDataset, file: Path, originals
):
    file.write_text(f"path,label\na.png,cat\nsub/b.png,dog\n{originals}/a.png,dog\na.png,cat\n")
    with pytest.raises(CrlcError, match=r"a\.png.*'cat'.* 2 .*'dog'.* 4"):
        import_label_file(annotations, dataset, file)
    (found,) = read_label_file(file, dataset).contradictions
    assert (found.labels, found.lines) == (("cat", "dog"), (2, 4))
    assert annotations.read_history() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", r"\(path, .*\).*\(label, name\)"),
        (b"picture,tag\na.png,x", "picture, tag"),
        (b"path,tag\na.png,x", r"\(label, name\).*path, tag"),
        (b"label\nx", r"\(path, .*label"),
        (b"path,label\na.png,\n", "no line has a label"),
        (b"path,label\nz.png,x\n", "z.png.*originals"),
        (b"path,label\na.png,a\x07b\n", "line 2: label='a.x07b'"),
        (b"path,label\nsub/b.png,ok\na.png," + b"x" * 300, "line 3: .*300.*200"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "Its first line is: .x89PNG"),
    ],
)
def test_import_refuses_files_that_cannot_be_used(
    annotations: AnnotationStore, dataset: ImageDataset, file: Path, content, words: str
):
    file.write_bytes(content)
    with pytest.raises(CrlcError, match=words):
        import_label_file(annotations, dataset, file)
    assert annotations.read_history() == []
    with pytest.raises(SourceError, match=r"nothing\.csv cannot be opened"):
        import_label_file(annotations, dataset, file.with_name("nothing.csv"))


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_import_reads_windows_encodings(annotations: AnnotationStore, dataset: ImageDataset, file: Path, encoding: str):
    file.write_bytes("path;label\na.png;größe\n".encode(encoding))
    import_label_file(annotations, dataset, file)
    assert annotations.refresh().get_label(1) == "größe"


def test_export_includes_labels_of_missing_images(annotations: AnnotationStore, dataset: ImageDataset):
    annotations.label([1, 2], "cat")
    remove_image(dataset, 1)
    stream = io.StringIO(newline="")
    assert write_label_file(dataset, annotations.refresh(), stream) == 2


# ---- finding images


def test_find_image_ids_by_path_or_id(dataset: ImageDataset, originals: Path, monkeypatch: pytest.MonkeyPatch):
    assert find_image_ids(dataset, ["sub/b.png", "3", f"{originals}/a.png", "\udcff.png"]).tolist() == [2, 3, 1, 7]
    assert find_image_ids(dataset, ["12"]).tolist() == [8]  # a path has priority over an id
    os.makedirs(originals / "sub")
    monkeypatch.chdir(originals / "sub")
    assert find_image_ids(dataset, ["b.png"]).tolist() == [2]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("b.png", "'sub/b.png'"),
        ("sub/bb.png", "'sub/b.png'"),
        ("99", "'99'.* 8"),
        ("completely different", "'completely different'"),
        ("²", "²"),
    ],
)
def test_find_image_ids_suggests_a_similar_path(dataset: ImageDataset, given: str, words: str):
    with pytest.raises(NotFoundError, match=words):
        find_image_ids(dataset, [given])
