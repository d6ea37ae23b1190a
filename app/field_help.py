"""What each field of a settings class means, from the docstring under it: a page says the same as the code."""

from __future__ import annotations

import ast
import inspect
from functools import cache


@cache
def field_help(settings: type) -> dict[str, str]:
    """The docstring under each field, in one line, by the field's name in the order in which they are defined."""
    body = ast.parse(inspect.getsource(settings)).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for statement, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = after.value.value if is_text else ""
            found[statement.target.id] = " ".join(str(text).split())
    return found
