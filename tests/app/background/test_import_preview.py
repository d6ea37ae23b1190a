"""Preview of a dataset while its first import decodes images."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.background.import_preview import ImportPreview
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
    assert not preview._thread.is_alive()
