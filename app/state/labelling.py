"""Session state of the Label page: queue of images, decisions, names, and the last import of labels."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import streamlit as st

from app.view_models.cluster_view import ClusterView
from app.view_models.label_items import LabelItems
from app.view_models.label_queue import LabelQueue
from app.view_models.label_session import LabelSession

SOURCE_WIDGET, MODE_WIDGET = "label-source", "label-mode"
"""Keys of the widgets for the source of images and the mode."""

ONE_BY_ONE, ALL_AT_ONCE, WHAT_CHANGED = "One by one", "All at once", "What changed"

_KEY = "labelling"


@dataclass
class LabelState:
    """State of one view; another view starts with an empty state."""

    view_key: tuple[str, str] = ("", "")
    """Kind and name of the view."""

    initial_view: ClusterView | None = None
    """The view that was opened first; it stays in use while only labels and exclusions change."""

    session: LabelSession = field(default_factory=LabelSession)
    source: Hashable = None
    """Identifier of the images that the queue was built from."""

    queue: LabelQueue = field(default_factory=LabelQueue)
    queue_id: str = ""
    """Identifier of the queue."""

    names: list[str] = field(default_factory=list)
    items: LabelItems | None = None

    imported: str | None = None
    """Report of the last import of labels."""

    import_problem: str | None = None


def get_label_state(kind: str = "", name: str = "") -> LabelState:
    """Return the state of a view, by default that of the last view."""
    state: LabelState | None = st.session_state.get(_KEY)
    if state is None or (name and state.view_key != (kind, name)):
        state = st.session_state[_KEY] = LabelState((kind, name))
    return state


def build_component_key(view: ClusterView) -> str:
    """Return the key of the labelling component; each view has its own, so that decisions never mix."""
    return f"label-desk-{view.kind}-{view.name}"


def preset_label_page(source: str, mode: str) -> None:
    """Set the source and the mode with which the Label page opens."""
    for key, value in ((SOURCE_WIDGET, source), (MODE_WIDGET, mode)):
        st.session_state.pop(key, None)
        st.session_state[f"{key}-last"] = value
