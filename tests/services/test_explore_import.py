"""Exploration of a dataset while its first import decodes images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crlc.data import importer
from crlc.data.dataset import ImageDataset
from crlc.data.options import ImportOptions
from crlc.errors import NotFoundError
from crlc.progress import Progress
from crlc.services import explore
from crlc.services.exploration import Exploration, read_exploration
from crlc.services.explore import explore_dataset, explore_import
from crlc.training.images import load_images
from crlc.workspace import Workspace
from tests.fixtures.images import save_images

IMAGES, FIRST_PART = 200, 60


@pytest.mark.slow
def test_explore_import_maps_the_images_decoded_so_far(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    save_images(tmp_path / "photos" / "first", IMAGES // 2, width=80, height=72)
    save_images(tmp_path / "photos" / "second", IMAGES // 2, width=80, height=72, first_seed=1000)
    monkeypatch.setattr(explore, "_FIRST_PART_IMAGES", FIRST_PART)
    monkeypatch.setattr(explore, "_MIN_IMAGES_PER_CLUSTER", 1)
    monkeypatch.setattr(importer, "_COMMIT_SECONDS", 0)
    monkeypatch.setattr("crlc.progress._REPORT_SECONDS", 0)
    started: list[tuple[ImageDataset, tuple[int, ...]]] = []
    seen: list[Exploration] = []

    def explore_once(progress: Progress) -> None:
        if progress.stage != importer.DECODING_STAGE or seen or progress.done < FIRST_PART:
            return
        dataset = started[0][0]
        explore_import(dataset, lambda count: count <= progress.done)
        found = read_exploration(workspace.open_dataset("photos"))
        assert found is not None
        seen.append(found)
        decoded = load_images(dataset, 160, decoded_so_far=True)
        assert len(decoded) == progress.done < IMAGES
        assert decoded.read_pixels(np.arange(len(decoded))).float().std(dim=(1, 2, 3)).min() > 1  # none is empty
        assert dataset.read_pixels(int(decoded.ids[0])).shape == (160, 160, 3)
        with pytest.raises(NotFoundError, match="did not finish"):
            load_images(dataset, 160)  # nothing is trained on a part by accident

    workspace.import_dataset(
        str(tmp_path / "photos"),
        options=ImportOptions(workers=1),
        report=explore_once,
        decoding_starts=lambda *arguments: started.append(arguments),
    )
    assert [sizes for _, sizes in started] == [(160,)]
    part = seen[0]
    assert (part.is_partial, len(part.ids), part.metadata["of"], part.cluster_count) == (True, FIRST_PART, IMAGES, 2)
    assert 0.3 < (part.ids > IMAGES // 2).mean() < 0.7  # of both folders
    dataset = workspace.open_dataset("photos")
    after = read_exploration(dataset)
    assert after is not None  # the map stays when the import ends
    np.testing.assert_array_equal(after.ids, part.ids)
    whole = explore_dataset(workspace, dataset, store_parts=True)
    assert (whole.is_partial, len(whole.ids)) == (False, IMAGES)


def test_explore_import_ends_with_the_import(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save_images(tmp_path / "photos", 30, width=80, height=72)
    monkeypatch.setattr(explore, "_FIRST_PART_IMAGES", 5)
    dataset, _ = workspace.import_dataset(str(tmp_path / "photos"))
    explore_import(dataset, lambda _: False)
    assert read_exploration(dataset) is None
