"""Small marker files with missing entries, wrong values and foreign content: each is readable or a clear error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from crlc.annotations.kept_duplicates import read_kept_duplicates, set_kept_duplicates
from crlc.clusters.colours import load_or_assign_colours
from crlc.clusters.dismissed_suggestions import dismiss_suggestion, read_dismissals
from crlc.errors import CrlcError
from crlc.jobs.job import create_job
from crlc.jobs.job_file import JobFile
from crlc.services.exploration import read_exploration
from crlc.workspace import Workspace
from crlc.workspace.example import decline_example, needs_example
from crlc.workspace.recent_folders import add_recent_folder, list_recent_folders
from crlc.workspace.runs import RunStore
from tests.fixtures.mutations import DEEP_NESTING, WRONG_VALUES, change_entry, list_places
from tests.fixtures.tiny_run import import_tiny_dataset, write_exploration, write_tiny_run

DATASET, RUN = "tiny", "tiny-run"


def read_pixels(workspace: Workspace) -> object:
    dataset = workspace.open_dataset(DATASET)
    store = dataset.open_pixels(dataset.get_default_size())
    return store.read(store.ids[:1])


READERS: dict[str, Callable[[Workspace], object]] = {
    "datasets/tiny/pixels/*.json": read_pixels,
    "datasets/tiny/exploration.json": lambda workspace: read_exploration(workspace.open_dataset(DATASET)),
    "datasets/tiny/kept-duplicates.json": lambda workspace: read_kept_duplicates(workspace.open_dataset(DATASET)),
    "runs/tiny-run/colours.json": lambda workspace: load_or_assign_colours(workspace, RunStore(workspace).open(RUN)),
    "runs/tiny-run/dismissed.json": lambda workspace: read_dismissals(RunStore(workspace).open(RUN), "result"),
    "jobs/queue.json": lambda workspace: JobFile(workspace.root).read_jobs(),
    "recent-folders.json": list_recent_folders,
    "example.json": needs_example,
}
"""Files, with functions that read them."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a workspace with all these files."""
    folder = tmp_path_factory.mktemp("markers")
    workspace = Workspace(folder / "workspace")
    decline_example(workspace)
    dataset = import_tiny_dataset(workspace, folder / DATASET)
    run = write_tiny_run(workspace, dataset)
    write_exploration(dataset)
    set_kept_duplicates(dataset, [1, 2], is_kept=True)
    load_or_assign_colours(workspace, run)
    dismiss_suggestion(run, "result", [0, 1], [4, 4])
    add_recent_folder(workspace, str(folder / DATASET))
    with JobFile(workspace.root).edit() as jobs:
        jobs.append(create_job(["train", DATASET], "title", "app"))
    return workspace.root


@pytest.mark.parametrize("pattern", READERS)
def test_damaged_marker_is_readable_or_a_clear_error(original: Path, pattern: str, tmp_path: Path):
    shutil.copytree(original, tmp_path / "workspace")
    workspace = Workspace(tmp_path / "workspace")
    (file,) = workspace.root.glob(pattern)
    content = json.loads(file.read_text())
    READERS[pattern](workspace)  # valid at first
    mutations = [b"", b"\xff\xfe\x00", DEEP_NESTING.encode(), b"[]", b"null", b'"x"', b"{}"]
    for place in list_places(content):
        removed = change_entry(content, place, lambda parent, key: parent.pop(key))
        changed = [
            change_entry(content, place, lambda parent, key, value=value: parent.__setitem__(key, value))
            for value in WRONG_VALUES
        ]
        mutations += [json.dumps(one).encode() for one in (removed, *changed)]
    for mutated in mutations:
        file.write_bytes(mutated)
        with suppress(CrlcError):  # any other error is a failure
            READERS[pattern](workspace)
