"""Comparison of a run trained with labels to its parent run: reassigned images and predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from app.components.clusters.editing import apply_edit, rename_cluster
from app.components.common.fragments import make_fragment
from app.components.common.safe_text import show_caption, show_error, show_warning
from app.components.gallery.change_review import ReviewGroup, build_side, show_change_review
from app.components.gallery.tiles import build_tiles
from app.components.labelling.label_report import load_label_report, show_label_report
from app.navigation import go_to
from app.state.exploring import get_explore_state, open_image, pop_rerun_request, request_rerun
from app.state.labelling import get_label_state
from app.state.selection import get_selection, request_selection
from app.state.widgets import set_widget_value
from app.view_models.cluster_view import LEAST_CONFIDENT, RunView
from app.view_models.improvement import describe_risk
from app.view_models.numbered_edits import parse_review_edit
from app.view_models.run_comparison import Reassignment, RunChanges, compare_with_parent
from app.view_models.view_cache import open_annotations, open_run_view
from crlc.annotations.state import AnnotationState
from crlc.errors import CrlcError
from crlc.formatting import format_count
from crlc.runs.state import RunState
from crlc.services.check_labels import LabelReport
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

_SHOWN_REASSIGNMENTS = 8
_IMAGES_PER_GROUP = 10
_IMAGES_OF_AN_EXPANDED_GROUP = 100
_EXAMPLES_PER_CLUSTER = 3


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
    risk = describe_risk(report)
    if risk is not None:
        show_warning(risk)
    _show_next_steps(before, after, is_recommended=risk is None)
    if report is not None:
        show_label_report(report)
    if not changes.reassignments:
        st.info("No images were reassigned: the clusters already match your labels.")
    else:
        _show_review(before, after, changes.reassignments[:_SHOWN_REASSIGNMENTS])
    rest = changes.reassignments[_SHOWN_REASSIGNMENTS:]
    if rest:
        images = sum(len(move.ids) for move in rest)
        show_caption(
            f"{len(rest):,} smaller groups with {images:,} images are not shown. The Runs page lists all of them."
        )


@make_fragment
def _show_review(before: RunView, after: RunView, moves: Sequence[Reassignment]) -> None:
    """Show the reassigned images, to accept or reject; a decision redraws only them, not the report of all labels."""
    if pop_rerun_request():
        st.rerun()  # an image was opened, or a cluster named, which other parts of the page show
    state = get_label_state()
    annotations = open_annotations(after.dataset).refresh()
    groups = [_build_group(before, after, move, annotations) for move in moves]
    show_caption(
        "✓ labels an image with the name of its new cluster, ✗ with that of its old cluster. "
        "The next run learns from these labels. Least confident images first."
    )
    problem = get_explore_state().problem
    if problem is not None:
        show_error(problem)
    show_change_review(
        after,
        groups,
        state.review,
        key=f"review-{before.name}-{after.name}",
        edited=partial(_apply_edits, before, after),
        opened=_open_image,
        expanded=state.expanded_groups.add,
    )


def _build_group(before: RunView, after: RunView, move: Reassignment, annotations: AnnotationState) -> ReviewGroup:
    key = f"{move.before}-{move.after}"
    rows = after.sort_rows(after.find_rows(move.ids), LEAST_CONFIDENT)
    is_expanded = key in get_label_state().expanded_groups
    shown = rows[: _IMAGES_OF_AN_EXPANDED_GROUP if is_expanded else _IMAGES_PER_GROUP]
    images = build_tiles(after, shown)
    return ReviewGroup(
        key=key,
        before=build_side(before, move.before),
        after=build_side(after, move.after),
        images=images,
        labels=annotations.get_labels([tile.id for tile in images]),
        total=len(rows),
        can_expand=not is_expanded and len(rows) > len(shown),
    )


def _apply_edits(before: RunView, after: RunView, value: Any) -> None:
    """Store the labels and names that came from the browser; an edit that is sent twice is stored once."""
    annotations = open_annotations(after.dataset)
    for edit in get_label_state().review.iterate_new_edits(value, parse_review_edit):
        if edit.cluster is not None:
            rename_cluster(before if edit.is_before else after, edit.cluster, edit.name)
            request_rerun()
        elif edit.name:
            apply_edit(partial(annotations.label, edit.ids, edit.name))
        else:
            apply_edit(partial(annotations.unlabel, edit.ids))


def _open_image(image_id: int) -> None:
    open_image(image_id)
    request_rerun()


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


def _show_next_steps(before: RunView, after: RunView, *, is_recommended: bool) -> None:
    is_here = get_selection().run == after.name
    with st.container(horizontal=True):
        if not is_here and st.button(
            "Switch to the new run",
            type="primary" if is_recommended else "secondary",
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
