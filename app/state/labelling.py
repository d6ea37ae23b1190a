"""Session state of the Label page: queue of images, decisions, names, and the report of the last import of labels."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import streamlit as st

from app.view_models.cluster_view import ClusterView
from app.view_models.label_items import LabelItems
from app.view_models.label_queue import LabelQueue
from app.view_models.label_session import LabelSession
from app.view_models.numbered_edits import EditSession

SOURCE_WIDGET, MODE_WIDGET = "label-source", "label-mode"
"""Keys of the widgets for the source of images and the mode."""

ONE_BY_ONE, ALL_AT_ONCE, WHAT_CHANGED = "One by one", "All at once", "What changed"

_KEY = "labelling"


@dataclass
class LabelState:
    """State of the Label page for one run or dataset; another one starts with an empty state."""

    view_key: tuple[str, str] = ("", "")
    """Kind and name of the run view or dataset view."""

    initial_view: ClusterView | None = None
    """The view that was opened first; it stays in use until the result, the clusters or their names change."""

    session: LabelSession = field(default_factory=LabelSession)
    source: Hashable = None
    """Identifies the images that the queue was built from; `None` before the first queue."""

    queue: LabelQueue = field(default_factory=LabelQueue)
    queue_id: str = ""
    """Changes with every new queue, so that the component in the browser starts again."""

    names: list[str] = field(default_factory=list)
    """Names to choose from; number keys refer to their positions."""

    items: LabelItems | None = None
    """Images of the queue as the component shows them; `None` until it is drawn."""

    review: EditSession = field(default_factory=EditSession)
    """Accepted and rejected images of What changed."""

    expanded_groups: set[str] = field(default_factory=set)
    """Groups of reassigned images of which more than the first are shown."""

    imported: str | None = None
    """Report of the last import of labels."""

    import_problem: str | None = None
    """Reason why the last import of labels failed."""


def get_label_state(kind: str = "", name: str = "") -> LabelState:
    """Return the state of a view, or without arguments the state of the view that was shown last."""
    state: LabelState | None = st.session_state.get(_KEY)
    if state is None or (name and state.view_key != (kind, name)):
        state = st.session_state[_KEY] = LabelState((kind, name))
    return state


def build_component_key(view: ClusterView) -> str:
    """Return the key of the labelling component. Each view has its own, so that decisions never reach another view."""
    return f"label-desk-{view.kind}-{view.name}"


def set_label_page_inputs(source: str, mode: str) -> None:
    """Set the values of the widgets for source and mode with which the Label page opens next."""
    for key, value in ((SOURCE_WIDGET, source), (MODE_WIDGET, mode)):
        st.session_state.pop(key, None)
        st.session_state[f"{key}-last"] = value
