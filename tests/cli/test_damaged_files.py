"""Commands on damaged or foreign workspace files and on a full disk: one-line errors, and nothing is changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from crlc.data.dataset import ImageDataset
from crlc.data.manifest import MANIFEST_FILE
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset
from tests.fixtures.handmade_run import write_handmade_result
from tests.fixtures.mutations import replace_bytes

PAGE = 4096


@pytest.fixture
def dataset(workspace: Workspace) -> ImageDataset:
    return write_handmade_dataset(workspace.root, build_numbered_paths(6))


@pytest.fixture
def run(workspace: Workspace, dataset: ImageDataset) -> RunFolder:
    return write_handmade_result(workspace, dataset)


COMMANDS = (
    ("clusters", "run-1"),
    ("clusters", "run-1", "name", "0", "sunsets"),
    ("clusters", "run-1", "split", "0"),
    ("export", "run-1", "--out", "out.csv"),
    ("export", "run-1", "--out", "out.html"),
    ("export", "run-1", "--links", "out"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("damage", ["cut", "empty", "foreign cluster", "fewer ids"])
def test_commands_neither_edit_nor_export_a_damaged_result(
    crlc,
    run: RunFolder,
    dataset: ImageDataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    damage: str,
):
    current = tmp_path / "current"
    current.mkdir()
    monkeypatch.chdir(current)
    z, cluster, ids = (next(run.path.glob(f"result-*/{name}.npy")) for name in ("z", "cluster", "ids"))
    if damage == "cut":
        z.write_bytes(z.read_bytes()[:-8])
    elif damage == "empty":
        z.write_bytes(b"")
    elif damage == "foreign cluster":
        np.save(cluster, np.array([0, 0, 0, 1, 1, 77], np.int32))
    else:
        np.save(ids, np.arange(1, 6))
    outcome = crlc(*arguments)
    assert outcome.code == 1
    assert "error: The result of the run run-1 cannot be used" in outcome.err
    assert list(current.iterdir()) == []
    assert not (dataset.folder / "annotations.sqlite").exists()


@pytest.mark.parametrize("damage", ["foreign", "float", "missing"])
def test_train_with_labels_refuses_a_parent_with_a_damaged_result(
    crlc, workspace: Workspace, dataset: ImageDataset, damage: str
):
    run = write_handmade_result(workspace, dataset, by_subhead=[[0, 1]] * 6)
    run.write_status(RunState.FINISHED)
    crlc("label", "set", "set", "x", "1")
    file = next(run.path.glob("result-*/by_subhead.npy"))
    if damage == "foreign":
        file.write_bytes(b"hello\n")
    elif damage == "float":
        np.save(file, np.full((6, 2), np.nan))
    else:
        file.unlink()
    outcome = crlc("train", "set", "--method", "semi", "--parent", "run-1", "--labels", "workspace")
    assert outcome.code == 1
    assert outcome.err.startswith("error: The result of the run run-1 cannot be used")
    assert "by_subhead" in outcome.err or str(file) in outcome.err or "magic" in outcome.err


@pytest.mark.parametrize("subhead", [2, -1])
def test_commands_refuse_a_selected_subhead_that_does_not_exist(
    crlc, workspace: Workspace, dataset: ImageDataset, subhead: int
):
    run = write_handmade_result(workspace, dataset, by_subhead=[[0, 1]] * 6)
    replace_bytes(run.path / "result.json", b'"subhead": 0', b'"subhead": %d' % subhead)
    outcome = crlc("quality", "run-1")
    assert outcome.code == 1
    assert f"its selected subhead is {subhead}, but there are 2" in outcome.err


@pytest.mark.parametrize("name", ["confidence", "q"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5, 1.5])
def test_commands_refuse_probabilities_that_are_none(crlc, run: RunFolder, name: str, value: float):
    file = next(run.path.glob(f"result-*/{name}.npy"))
    array = np.load(file)
    array.flat[3] = value
    np.save(file, array)
    outcome = crlc("clusters", "run-1", "--json")
    assert outcome.code == 1
    assert f"{file} is not a probability from 0 to 1" in outcome.err


def test_export_model_refuses_a_damaged_result_of_named_clusters(crlc, small_set: Path, tmp_path: Path):
    crlc("train", small_set, "--clusters", 2, "--epochs", 1, "--set", "subheads=2", "--set", "batch_size=64")
    crlc("clusters", "last", "name", 0, "bars")
    run = RunFolder(Path(crlc("export", "last", "--model", tmp_path / "good", "--json").json["run"]))
    folder = tmp_path / "workspace" / "runs" / run.id
    next(folder.glob("result-*/cluster.npy")).write_bytes(b"")
    assert "cannot be used" in crlc("export", "last", "--model", tmp_path / "bad").err
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        *COMMANDS[:-1],  # `--links` reads the originals first
        ("label", "set", "set", "x", "nothing.png"),
        ("quality", "run-1"),
        ("neighbours", "run-1", "1"),
        ("dataset", "set"),
    ],
    ids=" ".join,
)
def test_commands_report_a_damaged_page_of_the_manifest(
    crlc, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
):
    monkeypatch.chdir(tmp_path)
    dataset = write_handmade_dataset(workspace.root, [f"{'long' * 50}/{name}" for name in build_numbered_paths(200)])
    z = np.random.default_rng(0).normal(size=(200, 2))
    write_handmade_result(workspace, dataset, z=z, clusters=[0, 1] * 100, confidences=[0.9] * 200)
    file = dataset.folder / MANIFEST_FILE
    content = bytearray(file.read_bytes())
    pages = range(8, len(content) // PAGE)  # the first pages stay intact, so that the file opens
    for page in pages:
        content[page * PAGE : (page + 1) * PAGE] = b"\x77" * PAGE
    file.write_bytes(content)
    before = sorted(dataset.folder.iterdir())
    outcome = crlc(*arguments)
    assert outcome.code == 1
    assert f"{file} cannot be read" in outcome.err
    assert "Restore it from a backup" in outcome.err
    assert "remove the dataset and import it again: its labels and runs are lost" in outcome.err
    assert "Unexpected" not in outcome.err
    assert sorted(dataset.folder.iterdir()) == before


def test_datasets_lists_a_dataset_with_a_broken_link_to_its_pixels(crlc, workspace: Workspace):
    for name in ("set", "other"):
        write_handmade_dataset(workspace.root, build_numbered_paths(6), name=name)
    folder = workspace.root / "datasets" / "set" / "pixels"
    folder.mkdir(exist_ok=True)
    (folder / "8.u8").symlink_to("missing")
    outcome = crlc("datasets", "--json")
    assert [entry.get("error") for entry in outcome.json["datasets"]] == [None, None]


def test_runs_lists_damaged_runs_with_the_others(crlc, workspace: Workspace, run: RunFolder):
    run.write_status(RunState.FINISHED, epoch=3, epochs=3)
    for name, content in (("cake", "{"), ("empty", '{"kind": "run", "version": 1}')):
        foreign = workspace.root / "runs" / name
        foreign.mkdir()
        (foreign / "run.json").write_text(content)
    listed = crlc("runs")
    assert listed.code == 0
    lines = {line.split()[0]: line.split()[1] for line in listed.out.splitlines()[1:4]}
    assert lines == {"run-1": "finished", "cake": "damaged", "empty": "damaged"}
    assert "run.json cannot be read" in listed.out
    states = {one["run"]: one["state"] for one in crlc("runs", "--json").json["runs"]}
    assert states == lines
    expected = "run.json is damaged: it has no dataset, dataset_uid, manifest_version, settings"
    assert expected in crlc("quality", "empty").err


@pytest.mark.usefixtures("dataset")
def test_unknown_run_error_suggests_a_similar_id_or_prefix(crlc, workspace: Workspace):
    for name in ("scenes-20240101-101500", "scenes-20240102-101500", "digits-20240101-101500"):
        RunFolder(workspace.root / "runs" / name).write_metadata({})
    assert "Did you mean 'scenes-20240102-101500'?" in crlc("quality", "scenez").err
    assert "Did you mean 'digits-20240101-101500'?" in crlc("clusters", "digits-20240101-101501").err
    assert "Did you mean 'digits-20240101-101500'?" in crlc("duplicates", "digots").err
    assert "There are: set, scenes-20240101-101500" in crlc("quality", "xyz").err
    for number in range(20):
        RunFolder(workspace.root / "runs" / f"other-{number:02}").write_metadata({})
    error = crlc("quality", "xyz").err
    assert "There are: 14 older ones and other-10, other-11" in error
    assert "other-09" not in error


@pytest.mark.parametrize("small_disk", ["64k"], indirect=True)
@pytest.mark.usefixtures("dataset")
def test_label_export_on_a_full_disk_leaves_no_partial_file(crlc, small_disk: Path):
    crlc("label", "set", "set", "x", 1, 2)
    file = small_disk / "labels.csv"
    (small_disk / "rest").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    outcome = crlc("label", "set", "export", file)
    assert outcome.code == 1
    assert outcome.err.startswith(f"error: {file} cannot be written: the disk is full.")
    assert outcome.err.count("\n") == 1
    assert [path.name for path in small_disk.iterdir()] == ["rest"]
    (small_disk / "rest").unlink()
    assert crlc("label", "set", "export", file).code == 0
    assert file.read_bytes() == b"path,label\r\n00001.png,x\r\n00002.png,x\r\n"


def test_assign_checks_the_output_path_first(crlc, tmp_path: Path):
    """The missing folder is reported even though the run does not exist either."""
    outcome = crlc("assign", "nothing", tmp_path, "--out", tmp_path / "no" / "out.csv")
    assert outcome.code == 2
    assert "there is no folder" in outcome.err


def test_cluster_names_from_training_labels_appear_in_every_command(crlc, run: RunFolder, tmp_path: Path):
    description = {name: value for name, value in run.read_metadata().items() if name not in ("kind", "version")}
    run.write_metadata({**description, "names": {"0": "cat", "1": "dog"}})
    crlc("clusters", "run-1", "name", 1, "wolf")
    assert [one["name"] for one in crlc("clusters", "run-1", "--json").json["clusters"]] == ["cat", "wolf"]
    assert "0  " in crlc("clusters", "run-1").out.splitlines()[1]
    assert crlc("clusters", "run-1").out.splitlines()[1].endswith("cat")
    assert [one["name"] for one in crlc("quality", "run-1", "--json").json["clusters"]] == ["cat", "wolf"]
    assert "0 cat" in crlc("neighbours", "run-1", 1, "-k", 1).out
    crlc("quality", "run-1", "--images", tmp_path / "images.csv")
    assert (tmp_path / "images.csv").read_text().splitlines()[1].startswith('"00001.png",0,"cat",')
