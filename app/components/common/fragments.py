"""Fragments that show damaged files and errors of the system in place, also when only the fragment is drawn again.

Streamlit draws a fragment again without the script around it: an error would reach the user as a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec

import streamlit as st

from app.components.common.safe_text import show_error
from crlc.errors import explain_system_error
from crlc.workspace import get_default_workspace

_Arguments = ParamSpec("_Arguments")


def make_fragment(
    function: Callable[_Arguments, None], *, run_every: float | None = None
) -> Callable[_Arguments, None]:
    """Return the function as a fragment that shows errors about files, memory and permissions in place.

    Args:
        function: draws the fragment.
        run_every: seconds after which the fragment is drawn again, until the page draws it without them.
    """

    @wraps(function)
    def draw(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        with show_system_errors():
            function(*args, **kwargs)

    return st.fragment(draw, run_every=run_every)


@contextmanager
def show_system_errors() -> Iterator[None]:
    """Show errors about files, memory and permissions in place; any other error is a mistake in the program."""
    try:
        yield
    except Exception as error:
        explained = explain_system_error(error, get_default_workspace())
        if explained is None:
            raise
        show_error(str(explained))
