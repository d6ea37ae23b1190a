"""Tests of the schemas of JSON files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypedDict

import pytest

from crlc.json_schema import check_entries


class Colour(StrEnum):
    RED = "red"


@dataclass
class Point:
    x: float
    y: float = 0.0


class Entries(TypedDict, total=False):
    whole: int
    number: float | None
    flag: bool
    texts: list[str]
    counts: dict[str, int]
    colour: Colour
    point: Point
    anything: Any


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"whole": 2**63 - 1, "number": 3, "flag": False, "texts": [], "counts": {}, "colour": "red"},
        {"number": None, "texts": ["a"], "counts": {"a": 1}, "point": {"x": 1}, "anything": [{}], "unknown": 1},
    ],
)
def test_check_entries_accepts_the_types_of_the_schema(content: dict[str, Any]):
    check_entries(content, Entries)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"whole": 1.0}, "has whole=1.0, .* a whole number"),
        ({"whole": True}, "has whole=True"),
        ({"whole": 2**63}, "a whole number"),
        ({"number": float("nan")}, "a finite number or null"),
        ({"number": 10**400}, "a finite number"),
        ({"flag": 1}, "true or false"),
        ({"texts": ["a", 1]}, r"\['a', 1\], .* a list"),
        ({"texts": "a"}, "a list"),
        ({"counts": {"a": "1"}}, "an object .each: a whole number"),
        ({"colour": "blue"}, "one of red"),
        ({"colour": []}, "one of red"),
        ({"point": {"y": 1.0}}, "the right entries"),
        ({"point": [1.0]}, "the right entries"),
    ],
)
def test_check_entries_names_the_wrong_entry(content: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        check_entries(content, Entries)


def test_check_entries_names_all_missing_entries():
    with pytest.raises(ValueError, match="has no x$"):
        check_entries({"y": 1.0}, Point)
