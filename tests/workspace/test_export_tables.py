"""CSV and Parquet: what stands in them, that it comes back without loss, and that there is never half a file."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crlc.analysis.map_settings import MapSettings
from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.errors import CrlcError, SourceError, UsageError
from crlc.names import path_from_bytes, path_to_bytes, printable, spreadsheet_safe
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.annotations import Annotations
from crlc.workspace.clusterings import ClusterEditor, Clustering
from crlc.workspace.export.rows import RunExport
from crlc.workspace.export.tables import COLUMNS, AssignmentRow, read_assignments, write_table
from crlc.workspace.label_table import import_labels
from crlc.workspace.run_files import maps_folder
from crlc.workspace.run_maps import run_map
from tests.conftest import ROOT
from tests.workspace.handmade import handmade_dataset
from tests.workspace.test_export_rows import Q, add_image, make_run

ODD = ["=1+1.png", "new\nline.png", 'quo"te,.png', "\udcff.png", "🌷 tulip\\.png"]
BOTH = pytest.mark.parametrize("ending", [".csv", ".parquet"])


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    dataset = handmade_dataset(workspace.root, ODD)
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.execute("UPDATE images SET class = '@class\n' WHERE id = 2")
    return dataset


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    run = make_run(workspace, dataset)
    with Annotations(dataset) as annotations:
        annotations.label([4], '-cat, "big" \'x')
        annotations.exclude([5])
        editor = ClusterEditor(annotations, Clustering.of(run, dataset))
        editor.name(0, "'=cmd")
        editor.move([3], 0)
    add_image(dataset, "~later.png")
    run_map(run, run.result()[0]["z"], MapSettings("pca"))
    return run


def exported(run: RunFolder, dataset: ImageDataset) -> RunExport:
    with Annotations(dataset) as annotations:
        return RunExport.of(run, dataset, annotations.refresh())


def row(path: str, **values: object) -> AssignmentRow:
    nothing = dict.fromkeys((name if name != "class" else "class_" for name in COLUMNS), None)
    return AssignmentRow(**{**nothing, "path": path, "source": "model", "excluded": False, "run": "run-1", **values})


def by_hand(places: np.ndarray) -> list[AssignmentRow]:
    """The table of the fixtures, in the order of the paths' bytes."""
    f = [float(value) for value in np.array([0.6, 0.3, 0.5, 0.4, 0.7, 0.8, 0.15], np.float32)]
    at = [{"map_x": float(x), "map_y": float(y)} for x, y in places]
    name = {"cluster": 0, "cluster_name": "'=cmd"}
    return [
        row(ODD[0], **name, confidence=f[0], second_cluster=1, second_probability=f[1], image_id=1, **at[0]),
        row(ODD[1], **name, confidence=f[2], second_cluster=2, second_probability=f[3], image_id=2, **at[1],
            class_="@class\n"),
        row(ODD[2], **name, confidence=f[4], second_cluster=1, second_probability=f[4], image_id=3, **at[2],
            source="person"),
        row("~later.png", source="not assigned", image_id=6),
        row(ODD[4], cluster=2, confidence=f[3], second_cluster=0, second_probability=f[1], image_id=5, **at[4],
            excluded=True),
        row(ODD[3], cluster=2, confidence=f[5], second_cluster=1, second_probability=f[6], image_id=4, **at[3],
            source="person", label="-cat, \"big\" 'x"),
    ]  # fmt: skip


@BOTH
def test_every_cell_comes_back(run: RunFolder, dataset: ImageDataset, tmp_path: Path, ending: str):
    file = tmp_path / f"out{ending}"
    report = write_table(exported(run, dataset), file)
    assert (report.images, report.not_assigned) == (6, 1)
    places = np.load(next(maps_folder(run).glob("map-pca-*.npy")))
    assert list(read_assignments(file)) == by_hand(places)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_the_csv_as_it_stands(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    next(maps_folder(run).glob("map-pca-*.npy")).unlink()
    write_table(exported(run, dataset), tmp_path / "out.csv")
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


def test_two_exports_are_the_same_bytes(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    for name in ("one.csv", "two.csv"):
        write_table(exported(run, dataset), tmp_path / name)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_labels_can_be_imported_from_the_export(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    write_table(exported(run, dataset), tmp_path / "out.csv")
    with Annotations(dataset) as annotations:
        annotations.label([4], "dog")
        report = import_labels(annotations, dataset, tmp_path / "out.csv")
        assert (report.matched, report.changed, report.blank) == (1, 1, 5)
        assert annotations.refresh().label(4) == '-cat, "big" \'x'


def test_a_spreadsheet_may_have_saved_it_again(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    write_table(exported(run, dataset), tmp_path / "out.csv")
    import csv

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


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(paths=raw_names, class_name=texts, ending=st.sampled_from([".csv", ".parquet"]))
def test_any_name_comes_back(tmp_path_factory: pytest.TempPathFactory, paths, class_name, ending: str):
    folder = tmp_path_factory.mktemp("any")
    names = [path.decode("utf-8", "surrogateescape") for path in paths]
    dataset = handmade_dataset(folder, names)
    with Manifest(dataset.folder) as manifest, manifest.transaction():
        manifest.connection.execute("UPDATE images SET class = ?", (class_name,))
    run = make_run(Workspace(folder), dataset, Q[: len(names)])
    write_table(exported(run, dataset), folder / f"out{ending}")
    rows = list(read_assignments(folder / f"out{ending}"))
    assert [row.path for row in rows] == [path.decode("utf-8", "surrogateescape") for path in sorted(paths)]
    assert {row.class_ for row in rows} == {class_name}
    if ending == ".csv":
        lines = (folder / "out.csv").read_text(encoding="utf-8").split("\n")
        assert len(lines) == len(names) + 2  # no cell breaks a line
        assert not any(line[:2] in ('"=', '"+', '"-', '"@', '"\t', '"\r') for line in lines)


def test_paths_with_any_byte_are_written_as_if_looked_at_one_by_one(workspace: Workspace, tmp_path: Path):
    """Most paths are found to be harmless without being looked at: every character, first and later, is tried."""
    characters = [path_from_bytes(bytes([code])) for code in range(1, 256) if chr(code) != "/"]
    paths = [text for one in characters for text in (one, f"a{one}", f"{one}=")]
    dataset = handmade_dataset(workspace.root, [*dict.fromkeys(paths), "größe", "=größe", "\u2028"])
    run = make_run(workspace, dataset)
    write_table(exported(run, dataset), tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as stream:
        found = [row["path"] for row in csv.DictReader(stream)]
    with Manifest(dataset.folder) as manifest:
        stored = sorted(path_to_bytes(record.path) for record in manifest.records())
    assert found == [spreadsheet_safe(printable(path_from_bytes(path))) for path in stored]
    write_table(exported(run, dataset), tmp_path / "out.parquet")
    assert [row.path for row in read_assignments(tmp_path / "out.parquet")] == [*map(path_from_bytes, stored)]


@BOTH
def test_what_exists_stays(run: RunFolder, dataset: ImageDataset, tmp_path: Path, ending: str):
    file = tmp_path / f"out{ending}"
    file.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write_table(exported(run, dataset), file)
    assert file.read_text() == "mine"
    (tmp_path / f"link{ending}").symlink_to("nowhere")
    with pytest.raises(UsageError, match="exists already"):
        write_table(exported(run, dataset), tmp_path / f"link{ending}")


def test_a_name_taken_meanwhile_is_not_overwritten(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    file = tmp_path / "out.csv"
    with pytest.raises(UsageError, match="out.csv exists already"):
        write_table(exported(run, dataset), file, lambda _: file.write_text("somebody else's"))
    assert file.read_text() == "somebody else's"
    assert list(tmp_path.glob(".crlc-*")) == []


def test_places_that_cannot_be_written(run: RunFolder, dataset: ImageDataset, tmp_path: Path):
    export = exported(run, dataset)
    with pytest.raises(UsageError, match="there is no folder"):
        write_table(export, tmp_path / "no" / "out.csv")
    with pytest.raises(UsageError, match=r"choose \.csv or \.parquet"):
        write_table(export, tmp_path / "out.xlsx")
    with pytest.raises(CrlcError, match=r"cannot be written: File name too long"):
        write_table(export, tmp_path / f"{'x' * 300}.csv")
    if os.name == "posix" and Path("/proc/self").is_dir():
        with pytest.raises(CrlcError, match="/proc/self/out.csv cannot be written"):
            write_table(export, Path("/proc/self/out.csv"))


def test_a_full_disk(workspace: Workspace, small_disk: Path):
    names = [f"{'x' * 200}{number}.png" for number in range(20_000)]
    dataset = handmade_dataset(workspace.root, names)
    run = make_run(workspace, dataset)
    with pytest.raises(CrlcError, match="the disk is full"):
        write_table(exported(run, dataset), small_disk / "out.csv")
    assert list(small_disk.iterdir()) == []


EXPORT_AND_DIE = """
import os, signal, sys
from pathlib import Path
from crlc.data.dataset import ImageDataset
from crlc.training.run_folder import RunFolder
from crlc.workspace.curation import Curation
from crlc.workspace.export import rows
from crlc.workspace.export.tables import write_table

rows._MOST_ROWS = 2
chunks = rows.RunExport.chunks

def dying(self):
    for number, chunk in enumerate(chunks(self)):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield chunk

rows.RunExport.chunks = dying
run, dataset, file = map(Path, sys.argv[1:])
write_table(rows.RunExport.of(RunFolder(run), ImageDataset(dataset), Curation()), file)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@BOTH
def test_killed_in_the_middle_there_is_no_file(run: RunFolder, dataset: ImageDataset, tmp_path: Path, ending: str):
    file = tmp_path / f"out{ending}"
    command = [sys.executable, "-c", EXPORT_AND_DIE, str(run.path), str(dataset.folder), str(file)]
    killed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not file.exists()
    write_table(exported(run, dataset), file)
    assert len(list(read_assignments(file))) == 6


def test_files_that_are_no_export(tmp_path: Path):
    (tmp_path / "other.csv").write_text("path,cluster\na,1\n")
    with pytest.raises(CrlcError, match="lacks the columns cluster_name, confidence"):
        list(read_assignments(tmp_path / "other.csv"))
    (tmp_path / "odd.csv").write_text(",".join(COLUMNS) + "\na,many,,,,,,model,false,,,,run,1\n")
    with pytest.raises(CrlcError, match=r"line 2 is no row.*'many'"):
        list(read_assignments(tmp_path / "odd.csv"))
    (tmp_path / "short.csv").write_text(",".join(COLUMNS) + "\na,1\n")
    with pytest.raises(CrlcError, match="line 2 is no row"):
        list(read_assignments(tmp_path / "short.csv"))
    (tmp_path / "odd.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(SourceError, match="cannot be read as a table"):
        list(read_assignments(tmp_path / "odd.parquet"))
    with pytest.raises(SourceError, match="cannot be opened"):
        list(read_assignments(tmp_path / "nowhere.csv"))
