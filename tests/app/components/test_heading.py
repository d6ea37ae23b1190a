"""Heading of every page: title and purpose."""

from __future__ import annotations

import re

import pytest

from app.navigation import PAGES, PageEntry
from tests.fixtures.app_pages import page


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.name)
def test_heading_shows_title_and_purpose_of_every_page(entry: PageEntry):
    test = page(entry.name)
    assert not test.exception
    first = test.main.get("html")[0].proto.body
    heading = re.search(r"<h1 style='[^']*'>([^<]*)</h1><span style='[^']*' title='([^']*)'>([^<]*)</span>", first)
    assert heading is not None
    assert heading.groups() == (entry.title, entry.purpose, entry.purpose)
    assert not test.title  # no second, larger title


def test_purpose_of_every_page_fits_on_one_line():
    assert all(len(entry.purpose) <= 60 and entry.purpose.endswith(".") for entry in PAGES)
