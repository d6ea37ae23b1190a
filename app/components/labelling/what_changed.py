"""Comparison of a run trained with labels to its parent run: reassigned images and predicted labels."""

from __future__ import annotations

import streamlit as st

from app.components.common.safe_text import show_caption, show_error
from app.components.gallery.reassigned_images import show_reassigned_images
from app.components.labelling.label_report import load_label_report, show_label_report
from app.navigation import go_to
from app.state.selection import get_selection, request_selection
from app.state.widgets import set_widget_value
from app.view_models.cluster_view import RunView
from app.view_models.run_comparison import RunChanges, compare_with_parent
from app.view_models.view_cache import open_annotations, open_run_view
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.runs.state import RunState
from crlc.services.check_labels import LabelReport
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

_SHOWN_REASSIGNMENTS = 8


def show_what_changed(workspace: Workspace, parent: str, child: str) -> None:
    """Show the differences between a run and its parent run."""
    runs = RunStore(workspace)
    try:
        status = runs.open(child).read_status()
        before, after = open_run_view(workspace, runs.open(parent)), open_run_view(workspace, runs.open(child))
        changes = compare_with_parent(before, after)
    except CrlcError as error:
        show_error(str(error))
        return
    if status.state is not RunState.FINISHED:
        show_caption("The new run is not finished. These are its newest clusters; resume it on the Train page.")
    report = load_label_report(before, open_annotations(before.dataset).load_usable_labels())
    _show_summary(changes, report)
    _show_next_steps(before, after)
    if report is not None:
        show_label_report(report)
    if not changes.reassignments:
        st.info("No images were reassigned: the clusters already match your labels.")
    for move in changes.reassignments[:_SHOWN_REASSIGNMENTS]:
        show_reassigned_images(before, after, move)
    rest = changes.reassignments[_SHOWN_REASSIGNMENTS:]
    if rest:
        images = sum(len(move.ids) for move in rest)
        show_caption(
            f"{len(rest):,} smaller groups with {images:,} images are not shown. The Runs page lists all of them."
        )


def _show_summary(changes: RunChanges, report: LabelReport | None) -> None:
    moved = len(changes.comparison.reassigned_ids)
    cells = [
        ("Reassigned", format_count(moved, "image"), "Images that changed their cluster."),
        (
            "Unchanged",
            f"{changes.comparison.same_share:.1%}",
            "Fraction of images in matching clusters.",
        ),
    ]
    if report is not None:
        cells += [
            (
                "Labels predicted",
                f"{report.correct:,} of {report.labels:,}",
                "Each label is hidden once and predicted from the other labels (cross-validation). The fraction "
                "estimates how many of the other images get the right name.",
            ),
            (
                "Predicted before",
                f"{report.correct_before:,} of {report.labels:,}",
                "The same with the clusters of the parent run, named by the other labels.",
            ),
        ]
    for column, (label, value, text) in zip(st.columns(len(cells)), cells, strict=True):
        column.metric(label, value, help=text)


def _show_next_steps(before: RunView, after: RunView) -> None:
    is_here = get_selection().run == after.name
    with st.container(horizontal=True):
        if not is_here and st.button(
            "Switch to the new run",
            type="primary",
            key="use-child",
            help="Shows the new run on all pages. The current run is not changed.",
        ):
            request_selection(after.dataset.name, after.name)
            st.rerun()
        if st.button("Explore the new run", key="explore-child", icon=":material/bubble_chart:"):
            request_selection(after.dataset.name, after.name)
            go_to("explore")
        if st.button("Compare the runs", key="compare-child", icon=":material/stacked_line_chart:"):
            request_selection(after.dataset.name, after.name)
            set_widget_value("compare-with", before.name)
            go_to("runs")
