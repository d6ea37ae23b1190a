"""CLI as a whole: help, exit codes, one-line errors, JSON, and the commands about datasets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crlc.cli.main import COMMANDS, build_parser
from crlc.cli.tables import format_table
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.conftest import ROOT
from tests.fixtures.broken_files import PNG
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run


def test_help_lists_every_command_with_a_sentence():
    text = build_parser().format_help()
    for name, command in COMMANDS.items():
        assert name in text
        assert command.help[0].isupper()
        assert command.help.endswith(".")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_describes_every_argument(command: str):
    (actions,) = (action for action in build_parser()._actions if isinstance(action.choices, dict))
    parsers = [actions.choices[command]]
    for parser in parsers:
        for argument in parser._actions:
            if isinstance(argument.choices, dict) and argument.dest == "action":
                parsers += argument.choices.values()
            else:
                assert argument.help, f"{command} {argument.dest}"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_the_common_options_of_every_command(command: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as end:
        build_parser().parse_args([command, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert all(option in text for option in ("--workspace", "--json", "--debug"))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["import", "no/such/folder"], 1, "no/such/folder"),
        (["import", "digits", "--size", "0"], 2, "size=0"),
        (["import", "digits", "--size", "many"], 2, "invalid int value: 'many'"),
        (["import", "digits", "--limit", "-3"], 2, "limit=-3"),
        (["import", "digits", "--workers", "1000"], 2, "workers=1000"),
        (["import", "digits", "--split", "tset"], 2, "split='tset'"),
        (["import", "digits", "--split", "train"], 1, "no split train"),
        (["import", "digits", "--classes", "folders"], 2, "classes='folders'"),
        (["import", "digits", "--name", "a/b"], 2, "name='a/b'"),
        (["import", "digits", "--name", ".."], 2, "name='..' is not allowed"),
        (["import", "digits", "--name", "x" * 65], 2, "up to 64 letters"),
        (["import"], 2, "SOURCE"),
        (["dataset", "nothing"], 1, "'nothing'"),
        (["relink", "nothing", "."], 1, "'nothing'"),
        (["remove", "nothing", "--yes"], 1, "'nothing'"),
        (["explode"], 2, "invalid choice: 'explode'"),
        (["datasets", "--frobnicate"], 2, "unrecognized arguments: --frobnicate"),
    ],
)
def test_cli_reports_wrong_arguments_in_one_line_with_an_exit_code(
    crlc, workspace: Workspace, arguments, code: int, words: str
):
    outcome = crlc(*arguments)
    assert outcome.code == code
    assert outcome.out == ""
    (line,) = [line for line in outcome.err.splitlines() if not line.startswith("Listing")]
    assert line.startswith("error: ")
    assert words in line
    assert workspace.list_dataset_names() == []


def test_dataset_commands_print_text(crlc, tmp_path: Path):
    save_images(tmp_path / "Holiday Pictures" / "beach", 3)
    save_images(tmp_path / "Holiday Pictures" / "hills", 2, first_seed=10)
    (tmp_path / "Holiday Pictures" / "beach" / "broken.jpg").write_bytes(b"")
    folder = tmp_path / "Holiday Pictures"
    assert "crlc import" in crlc("datasets").out
    imported = crlc("import", folder)
    assert imported.code == 0
    assert "holiday-pictures: 5 images at 32 px" in imported.out
    assert "1 file cannot be read" in imported.out
    assert "--problems" in imported.out
    assert "images/s" in imported.err
    assert "holiday-pictures       5        2  32  ready" in crlc("datasets").out
    shown = crlc("dataset", "holiday-pictures", "--problems", tmp_path / "problems.csv").out
    assert "1 x the file is empty" in shown
    assert "3  beach" in shown
    assert (tmp_path / "problems.csv").read_text() == "path,bytes,reason\nbeach/broken.jpg,0,the file is empty\n"
    again = crlc("dataset", "holiday-pictures", "--problems", tmp_path / "problems.csv")
    assert again.code == 2
    assert "problems.csv exists already" in again.err
    assert crlc("remove", "holiday-pictures", "--yes").code == 0
    assert len(list(folder.rglob("*.png"))) == 5
    assert crlc("dataset", "holiday-pictures").code == 1


def test_dataset_commands_print_json(crlc, tmp_path: Path):
    files = save_images(tmp_path / "set", 4)
    (tmp_path / "set" / "copy.png").write_bytes(files[0].read_bytes())
    imported = crlc("import", tmp_path / "set", "--json").json
    assert (imported["dataset"], imported["readable"], imported["new"], imported["duplicates"]) == ("set", 5, 5, 1)
    assert crlc("datasets", "--json").json["datasets"][0]["name"] == "set"
    assert crlc("dataset", "set", "--json").json["sizes"] == [32]
    (tmp_path / "set").rename(tmp_path / "moved")
    assert crlc("relink", "set", tmp_path / "moved", "--json").json["found"] == 5
    assert crlc("remove", "set", "--yes", "--json").json == {"removed": "set", "runs_removed": [], "runs_left": []}


def test_dataset_lists_its_columns(crlc, tmp_path: Path):
    folder = tmp_path / "set"
    save_images(folder, 5)
    rows = [
        "00000.png,1.5,Bonn,2024-05-01",
        "00001.png,,Bonn,",
        "00002.png,4,Köln,2024-06-01T10:00",
        "00003.png,4,Köln,",
    ]
    (folder / "list.csv").write_text("\n".join(["path,score,city,when", *rows]), encoding="utf-8")
    crlc("import", folder / "list.csv", "--name", "list")
    lines = [line.split(maxsplit=2) for line in crlc("dataset", "list").out.splitlines()]
    by_name = {line[0]: line[1:] for line in lines if len(line) > 2}
    assert by_name["score"][0] == "number"
    assert by_name["score"][1].split() == ["1.5", "to", "4", "1"]
    assert by_name["city"] == ["category", "Bonn (2), Köln (2)" + by_name["city"][1][18:]]
    assert by_name["when"][1].split() == ["2024-05-01", "to", "2024-06-01", "10:00:00", "2"]
    found = {one["name"]: one for one in crlc("dataset", "list", "--json").json["columns"]}
    assert (found["when"]["low"], found["when"]["high"]) == ("2024-05-01", "2024-06-01T10:00:00")
    assert (found["city"]["frequent"], found["city"]["missing"]) == ({"Bonn": 2, "Köln": 2}, 0)
    assert found["width"]["origin"] == "file"


def test_import_reports_ignored_columns(crlc, tmp_path: Path):
    save_images(tmp_path / "set", 1)
    header, values = (",".join(f"{prefix}{number}" for number in range(101)) for prefix in ("f", ""))
    (tmp_path / "set" / "list.csv").write_text(f"path,{header}\n00000.png,{values}\n")
    assert "1 column of the list was not imported" in crlc("import", tmp_path / "set" / "list.csv").out


def test_import_json_is_the_only_output_on_stdout(start_crlc, tmp_path: Path):
    save_images(tmp_path / "set", 3)
    process = start_crlc("import", tmp_path / "set", "--json")
    out, errors = process.communicate(timeout=60)
    assert json.loads(out)["readable"] == 3
    assert "Decoding" in errors


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a name that is not UTF-8")
def test_cli_prints_unusual_names_under_any_locale(tmp_path: Path, workspace: Workspace):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd-\xff"))
    save_images(folder, 2)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    for arguments in (["import", str(folder)], ["datasets"], ["dataset", "odd"]):
        command = [sys.executable, "-m", "crlc", *arguments, "--workspace", str(workspace.root)]
        outcome = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=60)
        assert outcome.returncode == 0, outcome.stderr


def test_datasets_lists_a_damaged_dataset_with_the_others(crlc, tmp_path: Path, workspace: Workspace):
    for name in ("good", "bad"):
        save_images(tmp_path / name, 2)
        crlc("import", tmp_path / name)
    (workspace.open_dataset("bad").folder / "dataset.json").write_text("{")
    listed = crlc("datasets")
    assert listed.code == 0
    assert "damaged" in listed.out
    assert "good" in listed.out


def test_remove_asks_for_confirmation(crlc, tmp_path: Path, workspace: Workspace, monkeypatch):
    import io

    save_images(tmp_path / "set", 2)
    crlc("import", tmp_path / "set")
    assert "--yes" in crlc("remove", "set").err  # stdin is not a terminal
    terminal = io.StringIO("n\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    assert crlc("remove", "set").code == 0
    assert workspace.list_dataset_names() == ["set"]


def test_remove_lists_the_runs_and_deletes_them_on_request(crlc, tmp_path: Path, workspace: Workspace, monkeypatch):
    import io

    write_tiny_run(workspace, import_tiny_dataset(workspace, tmp_path / "set"))
    terminal = io.StringIO("n\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    assert "tiny-run" in crlc("remove", "set").err
    left = crlc("remove", "set", "--yes")
    assert "tiny-run" in left.out
    crlc("import", tmp_path / "set")
    # The run belongs to the dataset that was removed before.
    assert crlc("remove", "set", "--with-runs", "--yes", "--json").json["runs_removed"] == []
    write_tiny_run(workspace, workspace.import_dataset(str(tmp_path / "set"))[0])
    removed = crlc("remove", "set", "--with-runs", "--yes")
    assert "1 run" in removed.out
    assert (workspace.list_dataset_names(), RunStore(workspace).list_ids()) == ([], [])


def test_relink_prints_a_command_that_a_shell_accepts(crlc, workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "My Photos", 10)
    crlc("import", tmp_path / "My Photos", "--name", "mine")
    (tmp_path / "My Photos").rename(tmp_path / "New Place")
    (tmp_path / "New Place" / "00000.png").unlink()
    advice = crlc("relink", "mine", tmp_path / "New Place").out.splitlines()[-1]
    command = advice.split("run: ")[1]
    assert command == f"crlc import '{tmp_path / 'New Place'}' --name mine --workspace {workspace.root}"


def test_dataset_reports_a_file_that_cannot_be_written(crlc, tmp_path: Path):
    save_images(tmp_path / "set", 2)
    crlc("import", tmp_path / "set")
    outcome = crlc("dataset", "set", "--problems", tmp_path / "no" / "such" / "folder.csv")
    assert outcome.code == 1
    assert "folder.csv cannot be written" in outcome.err


def test_cli_debug_shows_the_traceback(crlc):
    outcome = crlc("dataset", "nothing", "--debug")
    assert "Traceback" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("error: ")


def test_import_interrupted_by_control_c_prints_one_line(start_crlc, tmp_path: Path):
    save_images(tmp_path / "set", 4, width=600, height=600)
    for number in range(4000):  # several seconds of decoding, interrupted at its start
        os.link(tmp_path / "set" / f"{number % 4:05d}.png", tmp_path / "set" / f"copy{number}.png")
    process = start_crlc("import", tmp_path / "set")
    assert process.stderr.readline().startswith("Listing")  # printed before decoding
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.strip().splitlines()[-1].startswith("error: Interrupted.")
    assert "Traceback" not in errors


def test_cli_prints_no_error_when_the_pipe_is_closed(start_crlc):
    process = start_crlc("datasets")
    process.stdout.close()
    assert process.wait(60) in (0, 1)
    assert process.stderr.read() == ""


def test_cli_starts_without_importing_torch():
    script = (
        "import sys, crlc.cli.main; print([m for m in ('torch', 'sklearn', 'streamlit', 'pandas') if m in sys.modules])"
    )
    outcome = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"


def test_doctor_finds_no_problems_here(crlc):
    outcome = crlc("doctor", "--json")
    assert outcome.code == 0
    assert outcome.json["problems"] == []
    assert outcome.json["device"]["type"] in ("cpu", "cuda", "mps")


def test_doctor_prints_how_to_install_missing_packages(crlc, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("crlc.cli.doctor.PACKAGES", ("numpy", "surely-not-installed"))
    outcome = crlc("doctor")
    assert outcome.code == 1
    assert "python -m pip install surely-not-installed" in outcome.out


def test_format_table_aligns_columns():
    assert format_table(("name", "images"), [["a", "1,000"], ["long", "5"]]) == [
        "name  images",
        "a      1,000",
        "long       5",
    ]
    # A path that starts with a digit is not a number; `-` stands for a missing number.
    assert format_table(("path", "score"), [["1.png", "0.5"], ["20.png", "-"]]) == [
        "path    score",
        "1.png     0.5",
        "20.png      -",
    ]


def test_import_rejects_a_single_image(crlc, tmp_path: Path):
    (tmp_path / "one.png").write_bytes(PNG)
    assert "one.png is a single file" in crlc("import", tmp_path / "one.png").err
