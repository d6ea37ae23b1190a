"""A button that fetches a file from one of our routes: it says that the file is being prepared, and what goes wrong.

A plain link would show nothing while the server writes a large file, and leave the page when it cannot.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent


@cache
def _component() -> Any:
    script, style = ((_HERE / f"download.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    return st.components.v2.component("crlc_download", js=script, css=style)


def download(url: str, file: str, *, key: str) -> None:
    """Show the button.

    Args:
        url: of a route of ours.
        file: what the file is called.
        key: of the component.
    """
    _component()(key=key, data={"url": url, "file": file})
