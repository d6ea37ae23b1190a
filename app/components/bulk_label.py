"""Many images labelled at once, from any page on which some are chosen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.components.editing import edit
from app.components.plain import show_caption
from app.exploring.opened import annotations_of
from app.exploring.subject import Subject
from app.labelling.sources import SELECTION, merged_names
from app.pages import go_to
from app.state.exploring import choose, clear_picks
from app.state.labelling import ALL_AT_ONCE, ONE_BY_ONE, ask_for, labelling
from crlc.workspace.operations import images

Ids = NDArray[np.int64]


def names_of(subject: Subject) -> list[str]:
    """Names to choose from: those with keys first, then the clusters' and all labels in use."""
    state = labelling(subject.kind, subject.name)
    state.names = merged_names(
        state.names, subject.names, annotations_of(subject.dataset).refresh().labelled().counts()
    )
    return state.names


def show_bulk_label(subject: Subject, ids: Ids, *, key: str, is_narrow: bool = False) -> None:
    """A name for all of some images, and a button that gives it; below the name where there is little room."""
    if is_narrow:
        name_box, (give, out) = st.container(), st.columns([3, 2])
    else:
        name_box, give, out = st.columns([3, 2.2, 1.6], vertical_alignment="bottom")
    name = name_box.selectbox(
        f"Label {images(len(ids))} as",
        names_of(subject),
        index=None,
        placeholder="Choose a name, or type a new one",
        accept_new_options=True,
        key=f"{key}-name",
        help="In place of any label they have. One undo takes it back for all of them.",
    )
    give.button(
        f"Label all {len(ids):,}",
        key=f"{key}-give",
        type="primary",
        disabled=not name or not len(ids),
        on_click=_label,
        args=(subject, ids, name),
        width="stretch",
    )
    out.button(
        f"Exclude {len(ids):,}",
        key=f"{key}-exclude",
        disabled=not len(ids),
        on_click=_exclude,
        args=(subject, ids),
        help="Leave them out of what is learned and exported.",
        width="stretch",
    )


def show_label_popover(subject: Subject, ids: Sequence[int] | Ids, title: str, *, key: str) -> None:
    """For other pages: label the chosen images at once, or go to the Label page with them."""
    given = np.asarray(ids, np.int64)
    with st.popover(f"Label {images(len(given))}", icon=":material/label:", disabled=not len(given)):
        show_bulk_label(subject, given, key=key, is_narrow=True)
        show_caption("They are labelled here and now, or:")
        if st.button("Label them one by one", key=f"{key}-one", icon=":material/keyboard:", type="tertiary"):
            choose(given, title)
            ask_for(SELECTION, ONE_BY_ONE)
            go_to("label")
        if st.button("Look through them first", key=f"{key}-grid", icon=":material/grid_view:", type="tertiary"):
            choose(given, title)
            ask_for(SELECTION, ALL_AT_ONCE)
            go_to("label")


def _label(subject: Subject, ids: Ids, name: str) -> None:
    edit(lambda: annotations_of(subject.dataset).label(ids, name))
    clear_picks()


def _exclude(subject: Subject, ids: Ids) -> None:
    edit(lambda: annotations_of(subject.dataset).exclude(ids))
    clear_picks()
