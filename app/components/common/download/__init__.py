"""Download button that shows the progress and the errors of a download from the app server.

A plain link would show nothing while the server writes a large file, and would leave the page on an error.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent


@cache
def _load_component() -> Any:
    script, style = ((_HERE / f"download.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    return st.components.v2.component("crlc_download", js=script, css=style)


def show_download(url: str, file: str, *, key: str) -> None:
    """Show a download button.

    Args:
        url: address of the file on this server.
        file: name of the file.
        key: key of the component.
    """
    _load_component()(key=key, data={"url": url, "file": file})
