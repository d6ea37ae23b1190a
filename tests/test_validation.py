"""Declarations of settings fields: validation, parsing and help texts."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from crlc.errors import UsageError
from crlc.validation import Validated, choice, describe_fields, number, read_field_docs, text


@dataclass(frozen=True)
class Oven(Validated):
    """An example."""

    degrees: int = number(180, 50, 3_000, json_name="temp")
    """How hot, in
    degrees."""

    humidity: float | None = number(None, 0.0)
    heat: str = choice("top", ("top", "bottom"))
    """Where the heat comes from."""

    label: str = text("", suggestions=("bread",))
    light: bool = False


def test_validated_accepts_values_at_the_limits_and_whole_numbers_for_floats():
    assert Oven(50, 0, "bottom", "any text", light=True) == Oven(50, 0.0, "bottom", "any text", True)
    assert Oven(3_000).humidity is None


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        ({"degrees": 49}, ("degrees=49", "from 50 to 3,000")),
        ({"degrees": 3_001}, ("degrees=3001", "from 50 to 3,000")),
        ({"degrees": 100.0}, ("degrees=100.0", "whole number")),
        ({"degrees": True}, ("degrees=True", "whole number")),
        ({"degrees": None}, ("degrees=None", "whole number")),
        ({"humidity": -1.0}, ("humidity=-1.0", "at least 0.0")),
        ({"humidity": float("nan")}, ("humidity=nan",)),
        ({"heat": "left"}, ("heat='left'", "top, bottom")),
        ({"label": 3}, ("label=3", "text")),
        ({"light": 1}, ("light=1", "true or false")),
    ],
)
def test_validated_error_names_field_value_and_what_is_allowed(values: dict[str, object], facts: tuple[str, ...]):
    with pytest.raises(UsageError) as error:
        Oven(**values)  # type: ignore[arg-type]
    assert all(fact in str(error.value) for fact in facts)


def test_describe_fields_returns_the_declarations_in_order():
    described = describe_fields(Oven)
    assert list(described) == ["degrees", "humidity", "heat", "label", "light"]
    assert (described["degrees"].kind, described["degrees"].low, described["degrees"].high) == (int, 50, 3_000)
    assert [info.json_name for info in described.values()] == ["temp", "humidity", "heat", "label", "light"]
    assert (described["humidity"].kind, described["humidity"].is_optional) == (float, True)
    assert (described["heat"].choices, described["label"].suggestions) == (("top", "bottom"), ("bread",))


def test_read_field_docs_joins_lines_and_leaves_undocumented_fields_empty():
    assert read_field_docs(Oven)["degrees"] == "How hot, in degrees."
    assert read_field_docs(Oven)["humidity"] == ""


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("degrees", "70", 70),
        ("humidity", "1e-2", 0.01),
        ("light", "Yes", True),
        ("light", "0", False),
        ("label", "", ""),
    ],
)
def test_field_info_parses_text(name: str, given: str, value: object):
    assert describe_fields(Oven)[name].parse(given) == value


@pytest.mark.parametrize(("name", "given"), [("degrees", "1.5"), ("degrees", "hot"), ("light", "maybe")])
def test_field_info_refuses_text_of_another_type(name: str, given: str):
    with pytest.raises(UsageError, match=re.escape(f"{name}={given!r}")):
        describe_fields(Oven)[name].parse(given)
