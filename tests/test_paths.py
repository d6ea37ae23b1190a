"""Tests of the lossless conversion of file names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crlc.paths import (
    decode_path,
    encode_path,
    escape_formula,
    from_printable,
    parse_typed_path,
    to_printable,
    unescape_formula,
)

any_name = st.binary(max_size=40).map(lambda name: name.decode("utf-8", "surrogateescape"))


@given(any_name)
@example("back\\x41slash")
@example("\x80 and \udc80")
def test_path_conversions_are_lossless(name: str):
    text = to_printable(name)
    assert text.isprintable()
    text.encode("utf-8")  # valid Unicode, or this raises
    assert from_printable(text) == name
    assert decode_path(encode_path(name)) == name


@given(st.text())
def test_escape_formula_is_safe_and_lossless(text: str):
    safe = escape_formula(text)
    assert not safe.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert unescape_formula(safe) == text


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
def test_to_printable_escapes_unprintable_characters(name: str, text: str):
    assert to_printable(name) == text


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("  /home/me/photos \n", "/home/me/photos"),
        ("'/home/me/my photos'", "/home/me/my photos"),
        (' "/home/me/photos " ', "/home/me/photos"),
        ("file:///home/me/my%20photos", "/home/me/my photos"),
        ("file://localhost/home/me/caf%C3%A9 #1?", "/home/me/café #1?"),
        ("file:///C:/Users/me", "C:/Users/me"),
        ("'file:///home/me'", "/home/me"),
        ("/home/me/o'brien", "/home/me/o'brien"),
        ("/home/'me'", "/home/'me'"),
        ('"', '"'),
        ("   ", ""),
    ],
)
def test_parse_typed_path_removes_what_people_paste_around_a_path(text: str, path: str):
    assert parse_typed_path(text) == path


def test_parse_typed_path_knows_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("USERPROFILE" if os.name == "nt" else "HOME", str(tmp_path))
    assert parse_typed_path(" '~/photos' ") == f"{tmp_path}/photos"
    assert parse_typed_path("a~b") == "a~b"
