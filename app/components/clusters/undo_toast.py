"""Short message about the last edit, with a button that undoes it. It lies over the page, so that nothing moves."""

from __future__ import annotations

import time

import streamlit as st

from app.components.clusters.editing import undo_edit
from app.components.common.safe_text import show_error, show_text
from app.state.exploring import get_explore_state
from app.view_models.cluster_view import ClusterView

_SHOWN_SECONDS = 12
_FADE_SECONDS = 0.4

_STYLE = """<style>
[data-testid="stLayoutWrapper"]:has(> [class*="st-key-undo-toast"]) {{
  position: fixed; z-index: 1000; right: 1.5rem; bottom: .5rem; width: max-content; max-width: min(40rem, 92vw);
  pointer-events: none;
}}
[class*="st-key-undo-toast"] {{
  pointer-events: auto; padding: .35rem .8rem; border-radius: 8px; box-shadow: 0 3px 14px #0005;
  background: #1d2730; color: #fff;
  animation: crlc-toast {fade}s linear {shown}s forwards;
}}
[class*="st-key-undo-toast"] button, [class*="st-key-undo-toast"] [role="alert"] {{ color: #9fd0f5; }}
@keyframes crlc-toast {{ to {{ opacity: 0; visibility: hidden; }} }}
</style>"""


def show_undo_toast(view: ClusterView, *, key: str = "page") -> None:
    """Show the message about the last edit for a few seconds, whether it succeeded or failed.

    Args:
        view: the view whose images were edited.
        key: part of the keys of its widgets: a page and its dialog may both show the message.
    """
    state = get_explore_state()
    message = state.problem or state.saved
    if message is None or time.monotonic() - state.edited_at > _SHOWN_SECONDS:
        return
    st.html(_STYLE.format(fade=_FADE_SECONDS, shown=_SHOWN_SECONDS))
    # A new key for each message: the browser then starts the time again.
    with st.container(horizontal=True, vertical_alignment="center", key=f"undo-toast-{key}-{state.edit_count}"):
        if state.problem is not None:
            show_error(state.problem)
        else:
            show_text(message)
        if state.problem is None and state.edit_id is not None:
            st.button(
                "Undo",
                key=f"undo-last-edit-{key}",
                icon=":material/undo:",
                type="tertiary",
                on_click=undo_edit,
                args=(view, state.edit_id),
            )
