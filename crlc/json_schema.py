"""Schemas of JSON files: the fields of a dataclass or `TypedDict`, which the content of a file must match.

A file may be damaged, edited by hand or from another program. It is checked once, where it is read, so that the code
behind can rely on the types of its entries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

_MAX_INT = 2**63 - 1
"""Larger numbers fit neither into NumPy nor into SQLite."""

_KIND_NAMES = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "text",
    NoneType: "null",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}
_MAX_SHOWN_LENGTH = 60


def check_entries(content: Mapping[str, Any], schema: type) -> None:
    """Check that all required entries exist, and that the known entries have the right types.

    Args:
        content: a JSON object. Entries that the schema does not name are ignored.
        schema: a dataclass or `TypedDict`. Fields of a dataclass without a default are required.

    Raises:
        ValueError: naming the entry, in words that continue a sentence about the file.
    """
    hints, required = _read_schema(schema)
    missing = [name for name in required if name not in content]
    if missing:
        raise ValueError(f"has no {', '.join(missing)}")
    for name, hint in hints.items():
        if name in content and not _is_valid(content[name], hint):
            shown = repr(content[name])[:_MAX_SHOWN_LENGTH]
            raise ValueError(f"has {name}={shown}, which is not allowed: it must be {_describe(hint)}")


@cache
def _read_schema(schema: type) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the type of every entry, and the names of the required ones."""
    hints = get_type_hints(schema)
    if is_dataclass(schema):
        defaults = {field.name: (field.default, field.default_factory) for field in fields(schema)}
        return hints, tuple(name for name, values in defaults.items() if values == (MISSING, MISSING))
    return hints, tuple(name for name in hints if name in schema.__required_keys__)  # type: ignore[attr-defined]


def _is_valid(value: object, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_is_valid(value, one) for one in arguments)
    if origin in (list, tuple):
        return isinstance(value, (list, tuple)) and all(_is_valid(one, arguments[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(_is_valid(one, arguments[1]) for one in value.values())
    if is_dataclass(hint) or is_typeddict(hint):
        return isinstance(value, dict) and _has_entries(value, hint)
    return hint is Any or _is_valid_scalar(value, hint)


def _is_valid_scalar(value: object, kind: type) -> bool:
    if isinstance(value, bool) or kind is bool:  # a bool is an int in Python, but not in JSON
        return isinstance(value, bool) and kind is bool
    if kind is int or (kind is float and isinstance(value, int)):
        return isinstance(value, int) and abs(value) <= _MAX_INT
    if issubclass(kind, Enum):
        return value in [one.value for one in kind]
    return isinstance(value, kind) and (not isinstance(value, float) or math.isfinite(value))


def _has_entries(value: dict[str, Any], schema: Any) -> bool:
    try:
        check_entries(value, schema)
    except ValueError:
        return False
    return True


def _describe(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_describe(one) for one in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(str(one.value) for one in hint)}"
    items = [_describe(one) for one in get_args(hint) if one not in (str, Any, ...)]
    known = _KIND_NAMES.get(get_origin(hint) or hint, "an object with the right entries")
    return f"{known} (each: {items[0]})" if items else known
