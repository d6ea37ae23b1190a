"""Session state of the Clusters page: edits on its cards, the preview of a split, and the parts after it."""

from __future__ import annotations

from dataclasses import dataclass, field

import streamlit as st

from app.view_models.numbered_edits import EditSession
from crlc.arrays import ImageIds
from crlc.services.words import SuggestedName

_KEY = "clusters-page"


@dataclass(frozen=True)
class SplitPreview:
    """Parts into which a cluster would be split; exactly these are stored when the user agrees."""

    view_version: str
    """Version of the view that the parts were computed for."""

    cluster: int
    parts: tuple[ImageIds, ...]
    """Image ids of each part, the largest first."""


@dataclass
class ClustersState:
    """State of the Clusters page for one run; another one starts with an empty state."""

    run: str = ""
    cards: EditSession = field(default_factory=EditSession)
    is_previewing: bool = False
    """True if the parts of a split are shown before it is done."""

    preview: SplitPreview | None = None
    parts: tuple[int, ...] = ()
    """The clusters that the last split made; they are shown beside each other. Empty otherwise."""

    words_task: str | None = None
    """Key of the background task that suggests names from the user's words."""

    words_problem: str = ""
    """Error in the user's words; empty without one."""

    own_suggestions: dict[int, list[SuggestedName]] | None = None
    """Suggested names by cluster from the user's words; `None` for those of ImageNet."""


def get_clusters_state(run: str = "") -> ClustersState:
    """Return the state of a run, by default of the last one."""
    state: ClustersState | None = st.session_state.get(_KEY)
    if state is None or (run and state.run != run):
        state = st.session_state[_KEY] = ClustersState(run)
    return state


def set_previewing(value: bool) -> None:
    """Show or hide the preview of a split (callback of a button)."""
    state = get_clusters_state()
    state.is_previewing, state.preview = value, None


def show_parts(parts: tuple[int, ...]) -> None:
    """Show the clusters that a split made; none to show all clusters (callback of a button)."""
    state = get_clusters_state()
    state.parts, state.is_previewing, state.preview = parts, False, None
