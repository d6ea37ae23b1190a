"""File names as text, without loss."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crlc.names import (
    from_printable,
    from_spreadsheet_safe,
    path_from_bytes,
    path_to_bytes,
    printable,
    spreadsheet_safe,
)

any_name = st.binary(max_size=40).map(lambda name: name.decode("utf-8", "surrogateescape"))


@given(any_name)
@example("back\\x41slash")
@example("\x80 and \udc80")
def test_any_name_survives(name: str):
    text = printable(name)
    assert text.isprintable()
    text.encode("utf-8")  # valid Unicode, or this raises
    assert from_printable(text) == name
    assert path_from_bytes(path_to_bytes(name)) == name


@given(st.text())
def test_no_cell_is_a_formula_and_none_is_lost(text: str):
    safe = spreadsheet_safe(text)
    assert not safe.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert from_spreadsheet_safe(safe) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain name.jpg", "plain name.jpg"),
        ("größe.png", "größe.png"),
        ("a\nb", "a\\x0ab"),
        ("a\\b", "a\\\\b"),
        ("caf\udce9", "caf\\xe9"),
        ("\u202ereversed", "\\u202ereversed"),
    ],
)
def test_examples(name: str, text: str):
    assert printable(name) == text
