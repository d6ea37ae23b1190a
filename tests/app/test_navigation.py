"""Registry of the pages."""

from __future__ import annotations

import pytest

from app.navigation import PAGES, get_page


def test_get_page_fails_for_a_name_that_does_not_exist():
    assert get_page("label").title == "Label"
    assert len({entry.name for entry in PAGES}) == len(PAGES)
    with pytest.raises(KeyError, match="labels"):
        get_page("labels")
