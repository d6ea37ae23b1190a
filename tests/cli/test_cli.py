"""The command line as its users meet it: help, exit codes, one-line errors, JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crlc.cli.main import COMMANDS, build_parser
from crlc.cli.output import describe, duration, megabytes, table
from crlc.progress import Progress
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs
from tests.app.tiny_run import tiny_dataset, tiny_run
from tests.conftest import ROOT
from tests.hostile import PNG
from tests.pictures import save_pictures

HELP = """\
usage: crlc [-h] [--version] COMMAND ...

Find the groups in a folder of images nobody has labelled.

positional arguments:
  COMMAND
    import    Make a data set of images, or bring one up to date.
    datasets  List the data sets.
    dataset   Show one data set: counts, classes, problems.
    relink    Tell a data set where its originals are now.
    remove    Forget a data set; originals are not touched.
    explore   Look at a data set before training: map, provisional clusters.
    count     Suggest a number of clusters for a data set.
    train     Train a run on a data set.
    resume    Go on with a run that was stopped.
    stop      Stop a run; it can be resumed.
    runs      List the runs.
    show      Show one run: state, metrics, curve.
    assign    Give new images the clusters of a run or model.
    neighbours
              Find the images of a run most like some.
    map       Make the map of a run.
    quality   Say how good the clusters of a run are.
    compare   Compare two runs of a data set.
    suggest   Suggest clusters to merge or split, images to label.
    duplicates
              Find near duplicates in a data set or run.
    outliers  Find the odd images of a run.
    clusters  List or edit the clusters of a run.
    label     Label or exclude images of a data set.
    export    Take a run's result away: a table, a page, links, a model.
    doctor    Check this computer: versions, device, disk, what is missing.

options:
  -h, --help  show this help message and exit
  --version   show program's version number and exit
"""


def test_the_help_text(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert build_parser().format_help() == HELP


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_common_options(command: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as end:
        build_parser().parse_args([command, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert all(option in text for option in ("--workspace", "--json", "--debug"))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["import", "no/such/folder"], 1, "no/such/folder does not exist"),
        (["import", "digits", "--size", "0"], 2, "size=0 is not allowed: it must be from 8 to 1024"),
        (["import", "digits", "--size", "many"], 2, "invalid int value: 'many'"),
        (["import", "digits", "--limit", "-3"], 2, "limit=-3 is not allowed: it must be at least 0"),
        (["import", "digits", "--workers", "1000"], 2, "workers=1000 is not allowed"),
        (["import", "digits", "--split", "tset"], 2, "'tset' is not one of train, test, val, unlabelled"),
        (["import", "digits", "--split", "train"], 1, "has no split train. Splits found there: none"),
        (["import", "digits", "--classes", "folders"], 2, "its images do not lie in folders"),
        (["import", "digits", "--name", "a/b"], 2, "name='a/b' is not allowed"),
        (["import", "digits", "--name", ".."], 2, "is not allowed"),
        (["import", "digits", "--name", "x" * 65], 2, "up to 64 letters"),
        (["import"], 2, "SOURCE"),
        (["dataset", "nothing"], 1, "No data set is named 'nothing'"),
        (["relink", "nothing", "."], 1, "No data set is named 'nothing'"),
        (["remove", "nothing", "--yes"], 1, "No data set is named 'nothing'"),
        (["explode"], 2, "invalid choice: 'explode'"),
        (["datasets", "--frobnicate"], 2, "unrecognized arguments: --frobnicate"),
    ],
)
def test_wrong_calls_get_one_line_and_an_exit_code(crlc, workspace: Workspace, arguments, code: int, words: str):
    outcome = crlc(*arguments)
    assert outcome.code == code
    assert outcome.out == ""
    (line,) = [line for line in outcome.err.splitlines() if not line.startswith("Listing")]
    assert line.startswith("error: ")
    assert words in line
    assert workspace.dataset_names() == []


def test_a_whole_story_for_people(crlc, tmp_path: Path):
    save_pictures(tmp_path / "Holiday Pictures" / "beach", 3)
    save_pictures(tmp_path / "Holiday Pictures" / "hills", 2, first_seed=10)
    (tmp_path / "Holiday Pictures" / "beach" / "broken.jpg").write_bytes(b"")
    folder = tmp_path / "Holiday Pictures"
    assert "No data sets" in crlc("datasets").out
    imported = crlc("import", folder)
    assert imported.code == 0
    assert "holiday-pictures: 5 images at 32 px" in imported.out
    assert "1 files could not be read" in imported.out
    assert "images/s" in imported.err
    assert "holiday-pictures       5        2  32  ready" in crlc("datasets").out
    shown = crlc("dataset", "holiday-pictures", "--problems", tmp_path / "problems.csv").out
    assert "1 x the file is empty" in shown
    assert "3  beach" in shown
    assert (tmp_path / "problems.csv").read_text() == "path,bytes,reason\nbeach/broken.jpg,0,the file is empty\n"
    assert "The originals are untouched" in crlc("remove", "holiday-pictures", "--yes").out
    assert len(list(folder.rglob("*.png"))) == 5
    assert crlc("dataset", "holiday-pictures").code == 1


def test_a_whole_story_for_programs(crlc, tmp_path: Path):
    files = save_pictures(tmp_path / "set", 4)
    (tmp_path / "set" / "copy.png").write_bytes(files[0].read_bytes())
    imported = crlc("import", tmp_path / "set", "--json").json
    assert (imported["dataset"], imported["readable"], imported["new"], imported["duplicates"]) == ("set", 5, 5, 1)
    assert crlc("datasets", "--json").json["datasets"][0]["name"] == "set"
    assert crlc("dataset", "set", "--json").json["sizes"] == [32]
    (tmp_path / "set").rename(tmp_path / "moved")
    assert crlc("relink", "set", tmp_path / "moved", "--json").json["found"] == 5
    assert crlc("remove", "set", "--yes", "--json").json == {"removed": "set", "runs_removed": [], "runs_left": []}


def test_json_is_the_only_thing_on_stdout(start_crlc, tmp_path: Path):
    save_pictures(tmp_path / "set", 3)
    process = start_crlc("import", tmp_path / "set", "--json")
    out, errors = process.communicate(timeout=60)
    assert json.loads(out)["readable"] == 3
    assert "Decoding" in errors


@pytest.mark.skipif(os.name != "posix", reason="needs a name that is not UTF-8")
def test_odd_names_can_be_printed_under_any_locale(tmp_path: Path, workspace: Workspace):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd-\xff"))
    save_pictures(folder, 2)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    for arguments in (["import", str(folder)], ["datasets"], ["dataset", "odd"]):
        command = [sys.executable, "-m", "crlc", *arguments, "--workspace", str(workspace.root)]
        outcome = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=60)
        assert outcome.returncode == 0, outcome.stderr


def test_a_damaged_data_set_does_not_hide_the_others(crlc, tmp_path: Path, workspace: Workspace):
    for name in ("good", "bad"):
        save_pictures(tmp_path / name, 2)
        crlc("import", tmp_path / name)
    (workspace.dataset("bad").folder / "dataset.json").write_text("{")
    listed = crlc("datasets")
    assert listed.code == 0
    assert "damaged" in listed.out
    assert "good" in listed.out


def test_removing_asks_and_takes_no_for_an_answer(crlc, tmp_path: Path, workspace: Workspace, monkeypatch):
    import io

    save_pictures(tmp_path / "set", 2)
    crlc("import", tmp_path / "set")
    assert "needs a yes" in crlc("remove", "set").err  # nobody there to ask
    terminal = io.StringIO("n\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    assert "Nothing was removed" in crlc("remove", "set").out
    assert workspace.dataset_names() == ["set"]


def test_removing_says_what_runs_there_are_and_takes_them_along_if_asked(
    crlc, tmp_path: Path, workspace: Workspace, monkeypatch
):
    import io

    tiny_run(workspace, tiny_dataset(workspace, tmp_path / "set"))
    terminal = io.StringIO("n\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    assert "It has 1 run: tiny-run." in crlc("remove", "set").err
    left = crlc("remove", "set", "--yes")
    assert "Its 1 run stayed, and cannot be opened without it: tiny-run." in left.out
    assert "--with-runs would have done both" in left.out
    crlc("import", tmp_path / "set")
    assert crlc("remove", "set", "--with-runs", "--yes", "--json").json["runs_removed"] == []  # those of another set
    tiny_run(workspace, workspace.import_dataset(str(tmp_path / "set"))[0])
    removed = crlc("remove", "set", "--with-runs", "--yes")
    assert "Removed set and its 1 run. The originals are untouched." in removed.out
    assert (workspace.dataset_names(), Runs(workspace).ids()) == ([], [])


def test_a_file_that_cannot_be_written_is_said(crlc, tmp_path: Path):
    save_pictures(tmp_path / "set", 2)
    crlc("import", tmp_path / "set")
    outcome = crlc("dataset", "set", "--problems", tmp_path / "no" / "such" / "folder.csv")
    assert outcome.code == 1
    assert "cannot be written" in outcome.err


def test_debug_shows_the_traceback(crlc):
    outcome = crlc("dataset", "nothing", "--debug")
    assert "Traceback" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("error: ")


def test_control_c_says_how_to_carry_on(start_crlc, tmp_path: Path):
    save_pictures(tmp_path / "set", 4, width=600, height=600)
    for number in range(4000):  # seconds of work, of which only the beginning is done
        os.link(tmp_path / "set" / f"{number % 4:05d}.png", tmp_path / "set" / f"copy{number}.png")
    process = start_crlc("import", tmp_path / "set")
    assert process.stderr.readline().startswith("Listing")  # from here on it decodes
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.strip().splitlines()[-1].startswith("error: Interrupted. What was finished is kept")
    assert "Traceback" not in errors


def test_a_reader_that_leaves_early_is_no_error(start_crlc):
    process = start_crlc("datasets")
    process.stdout.close()
    assert process.wait(60) in (0, 1)
    assert process.stderr.read() == ""


def test_listing_is_fast_and_does_not_load_torch():
    script = (
        "import sys, crlc.cli.main; print([m for m in ('torch', 'sklearn', 'streamlit', 'pandas') if m in sys.modules])"
    )
    outcome = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"


def test_doctor_finds_everything_in_the_test_environment(crlc):
    outcome = crlc("doctor", "--json")
    assert outcome.code == 0
    assert outcome.json["problems"] == []
    assert outcome.json["device"]["type"] in ("cpu", "cuda", "mps")


def test_doctor_says_how_to_get_what_is_missing(crlc, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crlc.cli.doctor.PACKAGES", ("numpy", "surely-not-installed"))
    outcome = crlc("doctor")
    assert outcome.code == 1
    assert (
        "surely-not-installed is not installed. Get it with: python -m pip install surely-not-installed" in outcome.out
    )


# ---- words


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (Progress("Listing", 1200, None, 3400.0), "Listing  1,200  3,400 images/s"),
        (Progress("Decoding", 500, 2000, 100.0), "Decoding   25%  500/2,000  100 images/s  15 s left"),
        (Progress("Decoding", 2000, 2000, 100.0, finished=True), "Decoding  100%  2,000/2,000  100 images/s"),
        (Progress("UMAP", 50, 200, 2.5, unit="rounds"), "UMAP   25%  50/200  2.5 rounds/s  1 min 0 s left"),
    ],
)
def test_progress_in_words(progress: Progress, text: str):
    assert describe(progress) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (8.24, "8.2 s"), (59, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_durations_in_words(seconds: float, text: str):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(7, "7 bytes"), (6400, "6.4 kB"), (83_000_000, "83 MB"), (2.7e9, "2.7 GB")]
)
def test_bytes_in_words(count: float, text: str):
    assert megabytes(int(count)) == text


def test_tables_line_up():
    assert table(("name", "images"), [["a", "1,000"], ["long", "5"]]) == [
        "name  images",
        "a      1,000",
        "long       5",
    ]


def test_an_image_is_not_a_folder(crlc, tmp_path: Path):
    (tmp_path / "one.png").write_bytes(PNG)
    assert "is a single file" in crlc("import", tmp_path / "one.png").err
