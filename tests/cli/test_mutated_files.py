"""Commands on workspace files with flipped bytes, missing entries, wrong types, deep nesting and NaN.

Every mutation is either harmless or an error in one line that names the file; it hides no other dataset or run.
"""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crlc.annotations.store import AnnotationStore
from crlc.cli.main import main
from crlc.runs.state import RunState
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset
from tests.fixtures.handmade_run import write_handmade_result
from tests.fixtures.mutations import DEEP_NESTING, WRONG_VALUES, change_entry, list_places

_EXAMPLES = 30

FILES = {
    "datasets/set/dataset.json": [("datasets",), ("dataset", "set"), ("clusters", "run-1")],
    "runs/run-1/run.json": [("runs",), ("show", "run-1"), ("clusters", "run-1"), ("resume", "run-1")],
    "runs/run-1/status.json": [("runs",), ("show", "run-1"), ("stop", "run-1")],
    "runs/run-1/result.json": [("clusters", "run-1"), ("outliers", "run-1")],
    "runs/run-1/metrics.jsonl": [("runs",), ("show", "run-1")],
}
"""Files, with the commands that read them."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a workspace with the datasets `set` and `other`, and a run of each."""
    workspace = Workspace(tmp_path_factory.mktemp("mutated") / "original")
    for number, name in enumerate(("set", "other"), 1):
        dataset = write_handmade_dataset(workspace.root, build_numbered_paths(6), name=name)
        run = write_handmade_result(workspace, dataset, name=f"run-{number}")
        run.write_status(RunState.STOPPED, epoch=1, epochs=2, step=3, steps=6, stage="joint")
        warning = {"kind": "collapse", "text": "One cluster is large."}
        record = {"kind": "epoch", "step": 3, "epoch": 1, "stage": "joint", "cluster_information": 0.5, "acc": None}
        more = {"clusters_found": 2, "largest_share": 0.5, "warnings": [warning], "timing": {"seconds": 1.5}}
        run.metrics_log.append({**record, **more})
        with AnnotationStore(dataset) as annotations:
            annotations.label([1, 2], "cat")
            annotations.exclude([3])
            annotations.undo()
    return workspace.root


def run_command(root: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command and return its exit code, output and error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*arguments, "--workspace", str(root)])
    return code, out.getvalue(), err.getvalue()


def check_commands(original: Path, name: str, content: bytes, commands: list[tuple[str, ...]]) -> None:
    """Run commands on the workspace while one file has another content."""
    before = (original / name).read_bytes()
    (original / name).write_bytes(content)
    try:
        for arguments in commands:
            code, printed, error = run_command(original, *arguments)
            assert "Unexpected" not in error, (arguments, error)
            assert (code == 0) == ("error: " not in error), (arguments, code, error)
            assert arguments != ("datasets",) or "other" in printed
            assert arguments != ("runs",) or "run-2" in printed
    finally:
        (original / name).write_bytes(before)


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=_EXAMPLES)
@given(data=st.data())
def test_commands_survive_a_json_file_with_a_changed_entry(original: Path, name: str, data: st.DataObject):
    content = json.loads((original / name).read_text())
    place = data.draw(st.sampled_from(list_places(content)))
    if data.draw(st.integers(0, 4)) == 0:
        changed = change_entry(content, place, lambda parent, key: parent.pop(key))
    else:
        value = data.draw(st.sampled_from(WRONG_VALUES))
        changed = change_entry(content, place, lambda parent, key: parent.__setitem__(key, value))
    end = "\n" if name.endswith("l") else ""
    check_commands(original, name, (json.dumps(changed) + end).encode(), FILES[name])


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=_EXAMPLES // 2)
@given(position=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_commands_survive_a_json_file_with_a_changed_byte(original: Path, name: str, position: float, byte: int):
    content = bytearray((original / name).read_bytes())
    content[int(position * len(content))] = byte
    check_commands(original, name, bytes(content), FILES[name])


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", DEEP_NESTING.encode() + b"\n", b"[]\n", b"null\n", b'"run"\n']
)
@pytest.mark.parametrize("name", FILES)
def test_commands_survive_a_json_file_of_another_kind(original: Path, name: str, content: bytes):
    check_commands(original, name, content, FILES[name])
