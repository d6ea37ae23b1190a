"""The Duplicates page, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.background.tasks import list_tasks
from crlc.annotations.store import AnnotationStore
from crlc.workspace import Workspace
from tests.fixtures.app_pages import link_labels, page, texts
from tests.fixtures.duplicates import save_duplicates
from tests.fixtures.images import save_images


def open_duplicates() -> AppTest:
    test = page("duplicates")
    for found in list_tasks("duplicates-").values():
        found.wait(60)
    test.run()
    assert not test.exception
    return test


@pytest.mark.usefixtures("empty")
def test_duplicates_page_shows_the_next_step_without_datasets():
    test = page("duplicates")
    assert not test.exception
    assert link_labels(test) == ["Go to Start"]


def test_duplicates_page_accepts_all_proposals(empty: Workspace, tmp_path: Path):
    save_duplicates(tmp_path / "set")
    dataset, _ = empty.import_dataset(str(tmp_path / "set"))
    test = open_duplicates()
    assert "2 groups, 4 redundant images" in texts(test)
    test.button(key="exclude-all-duplicates").click().run()
    assert not test.exception
    assert test.button(key="exclude-all-duplicates").disabled
    with AnnotationStore(dataset) as annotations:
        assert len(annotations.refresh().get_excluded_ids()) == 4
    test.segmented_control(key="duplicates-kind").select("exact").run()
    for found in list_tasks("duplicates-").values():
        found.wait(60)
    assert "1 group, 2 redundant images" in texts(test.run())


def test_duplicates_page_without_duplicates(empty: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 3)
    empty.import_dataset(str(tmp_path / "set"))
    assert "No duplicates" in texts(open_duplicates())
