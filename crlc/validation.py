"""Declaration and validation of settings: each field declares its default together with its range or choices.

A settings class is a frozen dataclass that inherits from `Validated`; its fields are declared with `number`, `choice`
or `text`, or with a plain default where the type is enough. The docstring under a field is its help text.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from crlc.errors import UsageError

_Number = TypeVar("_Number", int, float, int | None, float | None)
_Text = TypeVar("_Text", str, str | None)
_KIND_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_BOOLEAN_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def number(default: _Number, low: float, high: float | None = None, *, json_name: str = "") -> _Number:
    """Declare a numeric field.

    Args:
        default: the field's default; `None` is allowed where the annotation allows it.
        low: the smallest allowed value.
        high: the largest allowed value, or `None` for no upper limit.
        json_name: name of the field in files, where it differs from the field's name.
    """
    return _declare(default, low=low, high=high, json_name=json_name)  # type: ignore[no-any-return]


def choice(default: _Text, choices: Sequence[str], *, json_name: str = "") -> _Text:
    """Declare a text field that has one of the given values.

    Args:
        default: the field's default; `None` is allowed where the annotation allows it.
        choices: the allowed values.
        json_name: name of the field in files, where it differs from the field's name.
    """
    return _declare(default, choices=tuple(choices), json_name=json_name)  # type: ignore[no-any-return]


def text(default: _Text, *, suggestions: Sequence[str] = (), json_name: str = "") -> _Text:
    """Declare a text field that may have any value.

    Args:
        default: the field's default; `None` is allowed where the annotation allows it.
        suggestions: values that forms offer.
        json_name: name of the field in files, where it differs from the field's name.
    """
    return _declare(default, suggestions=tuple(suggestions), json_name=json_name)  # type: ignore[no-any-return]


def _declare(default: Any, **declaration: Any) -> Any:
    return field(default=default, metadata=declaration)


@dataclass(frozen=True)
class FieldInfo:
    """The declaration of one field of a settings class."""

    name: str
    kind: type
    """int, float, bool or str."""

    is_optional: bool
    """Whether `None` is allowed."""

    help: str = ""
    """The docstring under the field, in one line; empty if it was not read."""

    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    json_name: str = ""
    """Name of the field in files."""

    def check(self, value: object) -> None:
        """Check a value.

        Raises:
            UsageError: naming the field, its value and the allowed values.
        """
        if value is None and self.is_optional:
            return
        if not self._has_right_kind(value):
            raise UsageError(f"{self.name}={value!r} is not allowed: it must be {_KIND_NAMES[self.kind]}.")
        if self.choices and value not in self.choices:
            allowed = ", ".join(self.choices)
            raise UsageError(f"{self.name}={value!r} is not allowed: it must be one of {allowed}.")
        if isinstance(value, (int, float)) and not self._is_in_range(value):
            raise UsageError(f"{self.name}={value} is not allowed: it must be {self._range_text()}.")

    def parse(self, value: str) -> Any:
        """Convert text, for example from the command line, to the field's type.

        Raises:
            UsageError: the text is not a value of that type. Ranges and choices are not checked here.
        """
        try:
            return _BOOLEAN_WORDS[value.lower()] if self.kind is bool else self.kind(value)
        except (ValueError, KeyError):
            raise UsageError(f"{self.name}={value!r} is not allowed: it must be {_KIND_NAMES[self.kind]}.") from None

    def _has_right_kind(self, value: object) -> bool:
        if isinstance(value, bool):
            return self.kind is bool
        return isinstance(value, (int, float) if self.kind is float else self.kind)

    def _is_in_range(self, value: float) -> bool:
        above = self.low is None or value >= self.low  # NaN is in no range
        return above and (self.high is None or value <= self.high)

    def _range_text(self) -> str:
        return f"at least {self.low:,}" if self.high is None else f"from {self.low:,} to {self.high:,}"


class Validated:
    """Base of frozen dataclasses whose values are checked against the declarations of their fields."""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            UsageError: naming the field, its value and the allowed values.
        """
        for name, info in get_fields(type(self)).items():
            info.check(getattr(self, name))


def get_fields(settings: type) -> dict[str, FieldInfo]:
    """Return the declarations of a settings class by field name, in the order of declaration, without help texts."""
    return _get_fields(settings)


def describe_fields(settings: type) -> dict[str, FieldInfo]:
    """Return the declarations of a settings class with their help texts, which are read from its source."""
    docs = read_field_docs(settings)
    return {name: replace(info, help=docs.get(name, "")) for name, info in get_fields(settings).items()}


@cache
def _get_fields(settings: type) -> dict[str, FieldInfo]:
    hints = get_type_hints(settings)
    found = {}
    for one in fields(settings):
        kinds = get_args(hints[one.name]) or (hints[one.name],)
        declaration = {**one.metadata, "json_name": one.metadata.get("json_name") or one.name}
        found[one.name] = FieldInfo(one.name, kinds[0], is_optional=NoneType in kinds, **declaration)
    return found


def read_field_docs(settings: type) -> dict[str, str]:
    """Return the docstring under each field of a class in one line, by field name in the order of declaration."""
    body = ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for statement, following in zip(body.body, [*body.body[1:], ast.Pass()], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            has_doc = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            doc = ast.literal_eval(following.value) if has_doc else ""  # type: ignore[attr-defined]
            docs[statement.target.id] = " ".join(str(doc).split())
    return docs
