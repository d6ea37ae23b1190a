"""Component with a histogram of every column, on which the user selects ranges and categories. Texts are safe text."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import streamlit as st

from app.components.common.component_events import show_component
from app.components.common.safe_text import show_caption
from app.state.exploring import get_explore_state, set_filters
from app.view_models.cluster_view import ClusterView
from app.view_models.column_filters import ColumnFilter, build_condition, build_histograms, compute_column_masks
from app.view_models.image_filters import compute_mask
from app.view_models.image_selection import Mask

_HERE = Path(__file__).parent
_KEY = "column-panel"


@cache
def _load_component() -> Any:
    script, style = ((_HERE / f"panel.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    return st.components.v2.component("crlc_column_panel", js=script, css=style)


def show_column_panel(view: ClusterView, others: Mask) -> None:
    """Show the histograms; each counts the images that all other filters leave.

    Args:
        view: the view whose images are counted.
        others: mask of the images that the selection and the legend leave.
    """
    filters = get_explore_state().filters
    left = others & compute_mask(view, filters.replace(columns=()))
    masks = compute_column_masks(view, filters.columns)
    histograms = build_histograms(view, filters.columns, left, masks)
    if not histograms:
        show_caption("All images have the same values in every column.")
        return

    receivers = {"changed": partial(_apply_change, view)}
    show_component(_load_component(), _KEY, receivers, data={"columns": histograms})


def _apply_change(view: ClusterView, change: dict[str, Any]) -> None:
    """Set the filter of one column: some consecutive bins, categories, or a part of a text."""
    name = str(change["name"])
    condition: ColumnFilter | None
    if "first" in change:
        condition = build_condition(view, name, int(change["first"]), int(change["last"]))
    else:
        values = tuple(str(value) for value in change.get("values", ()))
        condition = ColumnFilter(name, values=values) if values else None
    set_filters(get_explore_state().filters.replace_column(name, condition))
