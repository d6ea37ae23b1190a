"""Folders sorted by date, which are no classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from crlc.data.date_folders import are_date_folders
from crlc.data.options import ImportOptions
from crlc.workspace import Workspace
from tests.fixtures.images import save_images


@pytest.mark.parametrize(
    "folders",
    [
        ["2021", "2022"],
        ["photos/2021", "photos/2022"],
        ["2021-05", "2021-06"],
        ["2021_05_12", "2021_05_13", "20210514"],
        ["2021/05", "2021/06", "2022/01"],
        ["2021/05", "2021/06"],
        ["2021/05/12", "2021/05/31"],
        ["my photos/2021-05/13", "my photos/2021-05/14"],
        ["05", "06", "12"],
        ["May 2021", "June 2021"],
        ["12 May 2021", "May 13, 2021"],
        ["12.05.2021", "1.6.2021"],
        ["January", "february"],
        ["2021/01 January", "2021/02 February"],
        ["1980s", "1990s", "2019-2020"],
        ["2021/may", "2022/10"],
    ],
)
def test_folders_of_dates(folders: list[str]):
    assert are_date_folders(folders)


@pytest.mark.parametrize(
    "folders",
    [
        [str(digit) for digit in range(10)],
        [f"{number:02}" for number in range(10)],  # from 00
        [f"{number:02}" for number in range(1, 21)],  # to 20: more than the months
        [f"digits/{digit}" for digit in range(10)],
        ["1", "2"],
        ["cats", "2021"],
        ["2021/Paris", "2021/Rome"],
        ["2021 Paris", "2022 Rome"],
        ["n01440764", "n02102040"],
        ["1821", "2321"],
        ["maypole", "march hare"],
        ["a", "b"],
        ["..", "-"],
        [],
    ],
)
def test_folders_of_classes(folders: list[str]):
    assert not are_date_folders(folders)


def test_import_of_folders_by_date_has_classes_on_request_only(workspace: Workspace, tmp_path: Path):
    for number, name in enumerate(("photos/2021", "photos/2022")):
        save_images(tmp_path / "set" / name, 3, first_seed=10 * number)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    assert dataset.summarize().classes == {}
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"), options=ImportOptions(classes="folders"))
    assert dataset.summarize().classes == {"photos/2021": 3, "photos/2022": 3}
