"""Exported CSV and Parquet tables: content, round trip, and no partial files."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crlc.analysis.maps.settings import MapSettings
from crlc.annotations.label_csv import import_label_file
from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor, Clustering
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.errors import CrlcError, UsageError
from crlc.export.rows import RunExport
from crlc.export.tables import COLUMNS, write_table
from crlc.paths import decode_path, encode_path, escape_formula, to_printable
from crlc.runs.folder import RunFolder
from crlc.runs.maps import load_or_compute_run_map
from crlc.runs.results import get_maps_folder
from crlc.workspace import Workspace
from tests.conftest import ROOT
from tests.fixtures.export_run import Q, add_image, make_run
from tests.fixtures.exported_tables import AssignmentRow, read_assignments
from tests.fixtures.handmade_dataset import write_handmade_dataset

PATHS = ["=1+1.png", "new\nline.png", 'quo"te,.png', "\udcff.png", "🌷 tulip\\.png"]
BOTH_FORMATS = pytest.mark.parametrize("suffix", [".csv", ".parquet"])


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    dataset = write_handmade_dataset(workspace.root, PATHS)
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.execute("UPDATE images SET class = '@class\n' WHERE id = 2")
    return dataset


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    run = make_run(workspace, dataset)
    with AnnotationStore(dataset) as annotations:
        annotations.label([4], '-cat, "big" \'x')
        annotations.exclude([5])
        editor = ClusterEditor(annotations, Clustering.from_run(run, dataset))
        editor.set_name(0, "'=cmd")
        editor.move([3], 0)
    add_image(dataset, "~later.png")
    load_or_compute_run_map(run, run.open_result()[0]["z"], MapSettings("pca"))
    return run


def create_export(run: RunFolder, dataset: ImageDataset) -> RunExport:
    with AnnotationStore(dataset) as annotations:
        return RunExport.from_run(run, dataset, annotations.refresh())


def make_row(path: str, **values: object) -> AssignmentRow:
    nothing = dict.fromkeys((name if name != "class" else "class_" for name in COLUMNS), None)
    return AssignmentRow(**{**nothing, "path": path, "source": "model", "excluded": False, "run": "run-1", **values})


def make_expected_rows(coordinates: np.ndarray) -> list[AssignmentRow]:
    """Return the expected table of the fixtures, in the order of the paths' bytes."""
    f = [float(value) for value in np.array([0.6, 0.3, 0.5, 0.4, 0.7, 0.8, 0.15], np.float32)]
    at = [{"map_x": float(x), "map_y": float(y)} for x, y in coordinates]
    name = {"cluster": 0, "cluster_name": "'=cmd"}
    return [
        make_row(PATHS[0], **name, confidence=f[0], second_cluster=1, second_probability=f[1], image_id=1, **at[0]),
        make_row(PATHS[1], **name, confidence=f[2], second_cluster=2, second_probability=f[3], image_id=2, **at[1],
            class_="@class\n"),
        make_row(PATHS[2], **name, confidence=f[4], second_cluster=1, second_probability=f[4], image_id=3, **at[2],
            source="person"),
        make_row("~later.png", source="not assigned", image_id=6),
        make_row(PATHS[4], cluster=2, confidence=f[3], second_cluster=0, second_probability=f[1], image_id=5, **at[4],
            excluded=True),
        make_row(PATHS[3], cluster=2, confidence=f[5], second_cluster=1, second_probability=f[6], image_id=4, **at[3],
            source="person", label="-cat, \"big\" 'x"),
    ]  # fmt: skip


@BOTH_FORMATS
def test_write_table_round_trips_every_cell(run: RunFolder, dataset: ImageDataset, tmp_path: Path, suffix: str):
    file = tmp_path / f"out{suffix}"
    report = write_table(create_export(run, dataset), file)
    assert (report.images, report.not_assigned) == (6, 1)
    coordinates = np.load(next(get_maps_folder(run).glob("map-pca-*.npy")))
    assert list(read_assignments(file)) == make_expected_rows(coordinates)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_write_table_csv_has_the_documented_text(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    next(get_maps_folder(run).glob("map-pca-*.npy")).unlink()
    write_table(create_export(run, dataset), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines() == [
        "path,cluster,cluster_name,confidence,second_cluster,second_probability,label,source,excluded,"
        "map_x,map_y,class,run,image_id",
        '"\'=1+1.png",0,"\'\'=cmd",0.6,1,0.3,,"model",false,,,,"run-1",1',
        '"new\\x0aline.png",0,"\'\'=cmd",0.5,2,0.4,,"model",false,,,"\'@class\\x0a","run-1",2',
        '"quo""te,.png",0,"\'\'=cmd",0.7,1,0.7,,"person",false,,,,"run-1",3',
        '"~later.png",,,,,,,"not assigned",false,,,,"run-1",6',
        '"🌷 tulip\\\\.png",2,,0.4,0,0.3,,"model",true,,,,"run-1",5',
        '"\\xff.png",2,,0.8,1,0.15,"\'-cat, ""big"" \'x","person",false,,,,"run-1",4',
    ]


def test_write_table_is_deterministic(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    for name in ("one.csv", "two.csv"):
        write_table(create_export(run, dataset), tmp_path / name)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_write_table_csv_can_be_imported_as_labels(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    write_table(create_export(run, dataset), tmp_path / "out.csv")
    with AnnotationStore(dataset) as annotations:
        annotations.label([4], "dog")
        report = import_label_file(annotations, dataset, tmp_path / "out.csv")
        assert (report.matched, report.changed, report.blank) == (1, 1, 5)
        assert annotations.refresh().get_label(4) == '-cat, "big" \'x'


def test_write_table_csv_survives_a_spreadsheet(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    write_table(create_export(run, dataset), tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as stream:
        rows = [line[::-1] for line in csv.reader(stream)]
    with (tmp_path / "again.csv").open("w", newline="", encoding="utf-8-sig") as stream:
        csv.writer(stream, delimiter=";").writerows([*rows, []])
    saved = (tmp_path / "again.csv").read_text(encoding="utf-8").replace("true", "TRUE").replace("false", "FALSE")
    (tmp_path / "again.csv").write_text(saved, encoding="utf-8")
    assert list(read_assignments(tmp_path / "again.csv")) == list(read_assignments(tmp_path / "out.csv"))


file_names = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=8)
raw_names = st.lists(
    st.one_of(file_names.map(str.encode), st.binary(min_size=1, max_size=6).filter(lambda b: b"\0" not in b)),
    min_size=1, max_size=4, unique=True,
)  # fmt: skip
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8).map(lambda t: t or None)


@settings(max_examples=25)
@given(paths=raw_names, class_name=texts, suffix=st.sampled_from([".csv", ".parquet"]))
def test_write_table_round_trips_any_name(tmp_path_factory: pytest.TempPathFactory, paths, class_name, suffix: str):
    folder = tmp_path_factory.mktemp("any")
    names = [path.decode("utf-8", "surrogateescape") for path in paths]
    dataset = write_handmade_dataset(folder, names)
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.execute("UPDATE images SET class = ?", (class_name,))
    run = make_run(Workspace(folder), dataset, Q[: len(names)])
    write_table(create_export(run, dataset), folder / f"out{suffix}")
    rows = list(read_assignments(folder / f"out{suffix}"))
    assert [row.path for row in rows] == [path.decode("utf-8", "surrogateescape") for path in sorted(paths)]
    assert {row.class_ for row in rows} == {class_name}
    if suffix == ".csv":
        lines = (folder / "out.csv").read_text(encoding="utf-8").split("\n")
        assert len(lines) == len(names) + 2  # no cell breaks a line
        assert not any(line[:2] in ('"=', '"+', '"-', '"@', '"\t', '"\r') for line in lines)


def test_write_table_formats_paths_with_any_byte(workspace: Workspace, tmp_path: Path):
    """Paths of ordinary characters skip the conversion: every character is tested at the start and later in a path."""
    characters = [decode_path(bytes([code])) for code in range(1, 256) if chr(code) != "/"]
    paths = [text for one in characters for text in (one, f"a{one}", f"{one}=")]
    dataset = write_handmade_dataset(workspace.root, [*dict.fromkeys(paths), "größe", "=größe", "\u2028"])
    run = make_run(workspace, dataset)
    write_table(create_export(run, dataset), tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as stream:
        found = [row["path"] for row in csv.DictReader(stream)]
    with Manifest(dataset.folder) as manifest:
        stored = sorted(encode_path(record.path) for record in manifest.read_records())
    assert found == [escape_formula(to_printable(decode_path(path))) for path in stored]
    write_table(create_export(run, dataset), tmp_path / "out.parquet")
    assert [row.path for row in read_assignments(tmp_path / "out.parquet")] == [*map(decode_path, stored)]


@BOTH_FORMATS
def test_write_table_never_overwrites(run: RunFolder, dataset: ImageDataset, tmp_path: Path, suffix: str):
    file = tmp_path / f"out{suffix}"
    file.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write_table(create_export(run, dataset), file)
    assert file.read_text() == "mine"
    (tmp_path / f"link{suffix}").symlink_to("nowhere")
    with pytest.raises(UsageError, match="exists already"):
        write_table(create_export(run, dataset), tmp_path / f"link{suffix}")


def test_write_table_does_not_overwrite_a_file_created_meanwhile(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    file = tmp_path / "out.csv"
    with pytest.raises(UsageError, match="out.csv exists already"):
        write_table(create_export(run, dataset), file, lambda _: file.write_text("of another process"))
    assert file.read_text() == "of another process"
    assert list(tmp_path.glob(".crlc-*")) == []


def test_write_table_rejects_unusable_destinations(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    export = create_export(run, dataset)
    with pytest.raises(UsageError, match="no folder"):
        write_table(export, tmp_path / "no" / "out.csv")
    with pytest.raises(UsageError, match=r"\.csv or \.parquet"):
        write_table(export, tmp_path / "out.xlsx")
    with pytest.raises(CrlcError, match=r"cannot be written: File name too long"):
        write_table(export, tmp_path / f"{'x' * 300}.csv")
    if os.name == "posix" and Path("/proc/self").is_dir():
        with pytest.raises(CrlcError, match="/proc/self/out.csv cannot be written"):
            write_table(export, Path("/proc/self/out.csv"))


def test_write_table_on_a_full_disk_leaves_no_file(workspace: Workspace, small_disk: Path):
    names = [f"{'x' * 200}{number}.png" for number in range(20_000)]
    dataset = write_handmade_dataset(workspace.root, names)
    run = make_run(workspace, dataset)
    with pytest.raises(CrlcError, match="the disk is full"):
        write_table(create_export(run, dataset), small_disk / "out.csv")
    assert list(small_disk.iterdir()) == []


EXPORT_AND_DIE = """
import os, signal, sys
from pathlib import Path
from crlc.data.dataset import ImageDataset
from crlc.runs.folder import RunFolder
from crlc.annotations.state import AnnotationState
from crlc.export import rows
from crlc.export.tables import write_table

rows._CHUNK_ROWS = 2
iterate_chunks = rows.RunExport.iterate_chunks

def iterate_chunks_and_die(self):
    for number, chunk in enumerate(iterate_chunks(self)):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield chunk

rows.RunExport.iterate_chunks = iterate_chunks_and_die
run, dataset, file = map(Path, sys.argv[1:])
write_table(rows.RunExport.from_run(RunFolder(run), ImageDataset(dataset), AnnotationState()), file)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@BOTH_FORMATS
def test_write_table_killed_in_the_middle_leaves_no_file(
    run: RunFolder, dataset: ImageDataset, tmp_path: Path, suffix: str
):
    file = tmp_path / f"out{suffix}"
    command = [sys.executable, "-c", EXPORT_AND_DIE, str(run.path), str(dataset.folder), str(file)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not file.exists()
    write_table(create_export(run, dataset), file)
    assert len(list(read_assignments(file))) == 6
