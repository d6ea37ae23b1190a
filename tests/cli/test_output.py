"""Output of commands on stderr: progress and errors as text or as JSON lines."""

from __future__ import annotations

import json

import pytest

from crlc.cli.main import main
from crlc.cli.output import PROGRESS_FORMATS, Output
from crlc.progress import Progress
from crlc.workspace import Workspace

REPORT = Progress("Decoding", 430, 1000, 12.5, finished=True)


def test_output_writes_progress_in_every_format(capsys: pytest.CaptureFixture[str]):
    written = {}
    for name in PROGRESS_FORMATS:
        Output(as_json=True, progress_format=name).progress(REPORT)
        written[name] = capsys.readouterr().err
    assert "430/1,000" in written["text"]
    assert Progress.from_json(json.loads(written["json"])["progress"]) == REPORT
    assert written["json"].count("\n") == 1
    assert written["none"] == ""


@pytest.mark.parametrize("arguments", [["dataset", "nothing"], ["datasets", "--nothing"]])
def test_output_writes_errors_as_json_lines_if_progress_is_json(
    workspace: Workspace, arguments: list[str], capsys: pytest.CaptureFixture[str]
):
    common = ["--workspace", str(workspace.root)]
    assert main([*arguments, "--progress", "json", *common]) != 0
    assert "nothing" in json.loads(capsys.readouterr().err)["error"]
    assert main([*arguments, *common]) != 0
    assert capsys.readouterr().err.startswith("error: ")
