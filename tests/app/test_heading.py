"""How pages begin."""

from __future__ import annotations

import re

import pytest

from app.pages import PAGES, PageEntry
from tests.app.pages import page


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.name)
def test_every_page_begins_in_the_same_way(entry: PageEntry):
    test = page(entry.name)
    assert not test.exception
    first = test.main.get("html")[0].proto.body
    heading = re.search(r"<h1 style='[^']*'>([^<]*)</h1><span style='[^']*' title='([^']*)'>([^<]*)</span>", first)
    assert heading is not None
    assert heading.groups() == (entry.title, entry.purpose, entry.purpose)
    assert not test.title  # no second, larger one


def test_a_purpose_fits_on_one_line():
    assert all(len(entry.purpose) <= 60 and entry.purpose.endswith(".") for entry in PAGES)
