"""Bar with the actions for the selected images: label, move, exclude, export, clear.

It has the same height with and without a selection, so that nothing moves when images are selected.
"""

from __future__ import annotations

from functools import partial
from html import escape

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from app.components.clusters.editing import move_images, rename_cluster
from app.components.clusters.undo_toast import show_undo_toast
from app.components.common.safe_text import show_caption
from app.components.common.word_buttons import show_word_buttons
from app.components.labelling.bulk_label import exclude_images, include_images, show_label_popover
from app.state.exploring import clear_selection, pick_images
from app.state.widgets import get_widget_value, set_widget_value
from app.view_models.cluster_view import ClusterView, RunView
from app.view_models.selection_table import build_selection_table
from app.view_models.words import get_words
from crlc.formatting import format_count

_TARGET = "explore-target"
_HINT = "Select images with their checkboxes, a lasso (Shift + drag on the map), or a click on the legend."


def show_selection_bar(
    view: ClusterView, listed: NDArray[np.int64], picked: NDArray[np.int64], *, are_excluded: bool = False
) -> None:
    """Show the bar, and the message about the last edit.

    Args:
        view: the view that the images belong to.
        listed: ids of the images that the gallery lists.
        picked: ids of the selected images.
        are_excluded: True if these are excluded images, which can only be included again.
    """
    with st.container(key="selection-bar", horizontal=True, vertical_alignment="center", gap="small"):
        if not len(picked):
            _show_select_all(listed, "Select all")
            show_caption(_HINT)
        else:
            words = f"{len(picked):,} selected"
            st.html(f"<b role='status' style='white-space:nowrap'>{escape(words)}</b>", width="content")
            if are_excluded:
                _show_include(view, picked)
            else:
                _show_actions(view, picked)
            if len(picked) < len(listed):
                _show_select_all(listed, f"Select all {len(listed):,}")
            st.button(
                "Clear",
                key="clear-selection",
                icon=":material/close:",
                on_click=clear_selection,
                help="Clears the selection (Esc on the map).",
            )
    show_undo_toast(view)


def _show_select_all(listed: NDArray[np.int64], label: str) -> None:
    st.button(
        label,
        key="select-all",
        icon=":material/select_all:",
        on_click=lambda: pick_images(listed.tolist()),
        disabled=not len(listed),
        help=f"Selects the {format_count(len(listed), 'image')} in the gallery, on all pages.",
    )


def _show_actions(view: ClusterView, picked: NDArray[np.int64]) -> None:
    show_label_popover(view, picked, "selected", key="explore-label", is_short=True)
    if isinstance(view, RunView) and view.shown_level is None:
        _show_name_popover(view, picked)
        _show_move_popover(view, picked)
    st.button(
        "Exclude",
        key="exclude-images",
        icon=":material/block:",
        on_click=exclude_images,
        args=(view, picked),
        help="Leaves the selected images out of training and exports.",
    )
    st.download_button(
        "Export",
        partial(build_selection_table, view, picked),
        f"{view.name}-{len(picked)}-images.csv",
        "text/csv",
        key="export-images",
        icon=":material/download:",
        on_click="ignore",
        help="Downloads a CSV table of the selected images: path, cluster, confidence, label and class.",
    )


def _show_include(view: ClusterView, picked: NDArray[np.int64]) -> None:
    st.button(
        "Include",
        key="include-images",
        icon=":material/undo:",
        on_click=include_images,
        args=(view, picked),
        help="Includes the selected images in training and exports again.",
    )


def _show_name_popover(view: RunView, ids: NDArray[np.int64]) -> None:
    """Show a popover that names the cluster of the selected images, if all of them are in one cluster."""
    clusters = np.unique(view.clusters[view.find_rows(ids)])
    number = int(clusters[0]) if len(clusters) == 1 else None
    with st.popover(
        "Name",
        key="name-cluster",
        icon=":material/edit:",
        disabled=number is None,
        help="Names the cluster of the selected images. Select images of one cluster, for example in the legend.",
    ):
        if number is None:
            return
        key = f"explore-name-{view.name}-{number}"
        set_widget_value(key, view.cluster_names.get(number, ""))
        st.text_input(
            f"Name of cluster {number}",
            key=key,
            placeholder="Name this cluster",
            on_change=lambda: rename_cluster(view, number, get_widget_value(key)),
        )
        words = get_words(view)
        suggested = [] if words is None else words.by_cluster.get(number, [])
        show_word_buttons(suggested, key="name-word", choose=lambda name: rename_cluster(view, number, name))


def _show_move_popover(view: RunView, ids: NDArray[np.int64]) -> None:
    """Show a popover that moves the selected images; no cluster is chosen in advance."""
    with st.popover("Move", key="move-selection", icon=":material/move_item:"):
        if get_widget_value(_TARGET) not in view.cluster_numbers:
            set_widget_value(_TARGET, None)
        target = st.selectbox(
            f"Move {format_count(len(ids), 'image')} to",
            view.cluster_numbers,
            index=None,
            placeholder="Choose a cluster",
            format_func=view.format_cluster,
            key=_TARGET,
        )
        st.button(
            "Move images",
            key="move-images",
            type="primary",
            disabled=target is None,
            on_click=_move,
            args=(view, ids.tolist(), target),
        )


def _move(view: RunView, ids: list[int], target: int) -> None:
    move_images(view, ids, target)
    set_widget_value(_TARGET, None)
