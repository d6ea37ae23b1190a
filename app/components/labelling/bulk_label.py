"""Widgets that label many images at once, for every page with a selection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st

from app.components.clusters.editing import apply_edit
from app.components.common.safe_text import show_caption
from app.components.common.word_buttons import show_word_buttons
from app.navigation import go_to
from app.state.exploring import clear_picks, select_images
from app.state.labelling import ALL_AT_ONCE, ONE_BY_ONE, get_label_state, set_label_page_inputs
from app.view_models.cluster_view import ClusterView
from app.view_models.label_queue import SELECTION, merge_names
from app.view_models.view_cache import open_annotations
from app.view_models.words import suggest_names_for
from crlc.arrays import ImageIds
from crlc.formatting import format_count


def list_names(view: ClusterView) -> list[str]:
    """Return the names to choose from: those with keys first, then cluster names and all labels in use."""
    state = get_label_state(view.kind, view.name)
    state.names = merge_names(
        state.names, view.cluster_names, open_annotations(view.dataset).refresh().to_label_set().count_by_name()
    )
    return state.names


def show_bulk_label(
    view: ClusterView, ids: ImageIds, *, key: str, is_narrow: bool = False, can_exclude: bool = True
) -> None:
    """Show a name field and buttons that label or exclude images.

    Args:
        view: the view that the images belong to.
        ids: the images.
        key: prefix of the widget keys.
        is_narrow: True to place the buttons below the name field.
        can_exclude: False to leave out the button that excludes the images.
    """
    if is_narrow:
        name_box, (give, out) = st.container(), st.columns([3, 2])
    else:
        name_box, give, out = st.columns([3, 2.2, 1.6], vertical_alignment="bottom")
    name = name_box.selectbox(
        f"Label {format_count(len(ids), 'image')} as",
        list_names(view),
        index=None,
        placeholder="Choose or type a name",
        accept_new_options=True,
        key=f"{key}-name",
        help="Replaces existing labels. One undo reverts all of them.",
    )
    give.button(
        f"Label {format_count(len(ids), 'image')}",
        key=f"{key}-give",
        type="primary",
        disabled=not name or not len(ids),
        on_click=label_images,
        args=(view, ids, name),
        width="stretch",
    )
    if not can_exclude:
        return
    out.button(
        f"Exclude {format_count(len(ids), 'image')}",
        key=f"{key}-exclude",
        disabled=not len(ids),
        on_click=exclude_images,
        args=(view, ids),
        help="Leaves the images out of training and exports.",
        width="stretch",
    )


def show_label_popover(
    view: ClusterView, ids: Sequence[int] | ImageIds, title: str, *, key: str, is_short: bool = False
) -> None:
    """Show a popover that labels all selected images, or opens them on the Label page.

    Args:
        view: the view that the images belong to.
        ids: the images.
        title: describes the images on the Label page.
        key: prefix of the widget keys.
        is_short: True if the number of images and a button to exclude them are beside the popover.
    """
    given = np.asarray(ids, np.int64)
    label = "Label" if is_short else f"Label {format_count(len(given), 'image')}"
    with st.popover(label, icon=":material/label:", disabled=not len(given), key=f"{key}-popover"):
        show_bulk_label(view, given, key=key, is_narrow=True, can_exclude=not is_short)
        show_word_buttons(
            suggest_names_for(view, given), key=f"{key}-word", choose=lambda name: label_images(view, given, name)
        )
        show_caption("Or:")
        if st.button("Label one by one", key=f"{key}-one", icon=":material/keyboard:", type="tertiary"):
            select_images(given, title)
            set_label_page_inputs(SELECTION, ONE_BY_ONE)
            go_to("label")
        if st.button("Review first", key=f"{key}-grid", icon=":material/grid_view:", type="tertiary"):
            select_images(given, title)
            set_label_page_inputs(SELECTION, ALL_AT_ONCE)
            go_to("label")


def label_images(view: ClusterView, ids: ImageIds, name: str) -> None:
    """Label images; they are no longer selected."""
    apply_edit(lambda: open_annotations(view.dataset).label(ids, name))
    clear_picks()


def exclude_images(view: ClusterView, ids: ImageIds) -> None:
    """Exclude images; they are no longer selected."""
    apply_edit(lambda: open_annotations(view.dataset).exclude(ids))
    clear_picks()


def include_images(view: ClusterView, ids: ImageIds) -> None:
    """Include excluded images again; they are no longer selected."""
    apply_edit(lambda: open_annotations(view.dataset).include(ids))
    clear_picks()
