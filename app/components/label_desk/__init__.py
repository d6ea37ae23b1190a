"""One image large, names with their keys, images to compare with: labelling at the speed of typing.

The browser shows the next image at once and sends its decisions; what became of them comes back in `data`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent


@cache
def _component() -> Any:
    script = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in ("view.js", "desk.js"))
    return st.components.v2.component("crlc_label_desk", js=script, css=(_HERE / "desk.css").read_text("utf-8"))


def label_desk(data: dict[str, Any], *, key: str, worked: Callable[[], None]) -> None:
    """Show it.

    Args:
        data: `window`, `answered`, `failed`, `saved`, `said` of the decisions so far; `turn`, `order`, `items`,
            `clusters` and `states` of the images; `names` with how many labels each has, and `enough` of them.
        key: of the component; its state `work` is what `app.labelling.desk.read_work` reads.
        worked: called when a person decided something, before the page runs again.
    """
    _component()(key=key, data=data, on_work_change=worked)
