"""Component that receives dropped or chosen files and whole folders, and uploads them with their relative paths.

The files go to the routes in `app/server/routes/uploads.py`, one by one, so that neither the browser nor the server
holds more than a few of them in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import show_component
from crlc.data.sources.counting import IMAGE_SUFFIXES

_HERE = Path(__file__).parent


@cache
def _load_component() -> Any:
    script = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in ("dropped.js", "zone.js"))
    style = (_HERE / "zone.css").read_text(encoding="utf-8")
    return st.components.v2.component("crlc_upload_zone", js=script, css=style)


def show_upload_zone(destination: str, last_finished: str, *, key: str, finished: Callable[[str, str], None]) -> None:
    """Show the component.

    Args:
        destination: folder that the files are copied to, for the user.
        last_finished: id of the upload that was finished last: the browser repeats its message until it sees it.
        key: key of the component.
        finished: receives the id of a complete upload and the name of its folder, before the page runs again.
    """

    def handle_uploaded(value: dict[str, Any]) -> None:
        finished(str(value.get("id", "")), str(value.get("name", "")))

    data = {"destination": destination, "suffixes": list(IMAGE_SUFFIXES), "finished": last_finished}
    show_component(_load_component(), key, {"uploaded": handle_uploaded}, data=data)
