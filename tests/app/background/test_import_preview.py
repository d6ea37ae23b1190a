"""Preview of a dataset while its first import decodes images."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app.background.import_preview import ImportPreview
from app.background.imports import ImportOutcome, list_imports, start_import
from app.background.previews import PREPARING_STAGE, get_preview
from crlc.data import importer
from crlc.progress import Progress
from crlc.services import explore
from crlc.services.exploration import read_exploration
from crlc.workspace import Workspace
from tests.fixtures.images import save_images


@pytest.mark.slow
def test_import_preview_explores_while_images_are_decoded(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    save_images(tmp_path / "photos", 100, width=80, height=72)
    monkeypatch.setattr(explore, "_FIRST_PART_IMAGES", 40)
    monkeypatch.setattr(explore, "_MIN_IMAGES_PER_CLUSTER", 1)
    monkeypatch.setattr(importer, "_COMMIT_SECONDS", 0)
    monkeypatch.setattr("crlc.progress._REPORT_SECONDS", 0)
    preview = ImportPreview()
    names: list[str] = []

    def report(progress: Progress) -> None:
        preview.report(progress)
        if progress.stage == importer.DECODING_STAGE and progress.done >= 64 and preview._thread.is_alive():
            preview._thread.join()  # the import waits until the first part is stored

    def start(dataset, sizes) -> None:
        names.append(dataset.name)
        preview.start(dataset, sizes)

    with preview:
        workspace.import_dataset(str(tmp_path / "photos"), report=report, decoding_starts=start)
    found = read_exploration(workspace.open_dataset(names[0]))
    assert found is not None
    assert (found.is_partial, len(found.ids)) == (True, 40)


def test_import_preview_ends_with_a_short_import(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "photos", 100, width=80, height=72)  # fewer than the first part of a preview
    with ImportPreview() as preview:
        workspace.import_dataset(str(tmp_path / "photos"), report=preview.report, decoding_starts=preview.start)
    preview.wait()
    assert read_exploration(workspace.open_dataset("photos")) is None


def test_import_ends_while_its_preview_still_loads(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    save_images(tmp_path / "photos", 24, width=200, height=180)
    is_loaded, wait = threading.Event(), ImportPreview.wait
    monkeypatch.setattr(explore, "explore_import", lambda *_, **__: is_loaded.wait(60))  # torch and the network
    explored: list[str] = []
    monkeypatch.setattr(explore, "explore_dataset", lambda _, dataset, *__, **___: explored.append(dataset.name))
    started = threading.Event()
    monkeypatch.setattr(ImportPreview, "wait", lambda self: (started.set(), wait(self)))
    key = start_import(workspace, str(tmp_path / "photos"))
    task = list_imports(workspace)[key]
    try:
        task.wait(60)
        assert isinstance(task.result, ImportOutcome)  # it does not wait for the preview
        preview = get_preview(workspace, task.result.dataset)
        assert preview is not None
        assert started.wait(60)
        assert preview.progress.stage == PREPARING_STAGE
        assert explored == []  # it waits for the lock of the other exploration
    finally:
        is_loaded.set()
    preview.wait(60)
    assert explored == [task.result.dataset]
