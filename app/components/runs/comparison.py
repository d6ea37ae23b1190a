"""Comparison of two runs of a dataset: agreement, matching clusters, reassigned images."""

from __future__ import annotations

import streamlit as st

from app.components.common.safe_text import show_caption, show_error
from app.components.gallery.change_review import ReviewGroup, build_side, show_reassigned_images
from app.components.gallery.tiles import build_tiles
from app.figures.heatmaps import plot_overlap
from app.view_models.cluster_view import RunView
from app.view_models.run_comparison import Reassignment, group_reassigned_images
from app.view_models.run_table import format_run_error
from app.view_models.view_cache import open_run_view
from crlc.analysis.comparison import Comparison
from crlc.errors import CrlcError, NotFoundError
from crlc.formatting import format_count
from crlc.services.compare_runs import compare_runs
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

_SHOWN_GROUPS = 5
_IMAGES_PER_GROUP, _IMAGES_OF_ONE_GROUP = 8, 40


def show_comparison(workspace: Workspace, first: str, second: str) -> None:
    """Show the comparison of two runs, given by their ids."""
    try:
        before, after = _open_view(workspace, first), _open_view(workspace, second)
        found = _compare(before.version, after.version, before, after)
    except CrlcError as error:
        show_error(str(error))
        return
    cells = (
        ("Images in both", f"{found.images:,}", "Only these are compared."),
        ("Unchanged", f"{found.same_share:.1%}", "Fraction of images that are in matching clusters of the two runs."),
        ("Reassigned", format_count(len(found.reassigned_ids), "image"), "Images that are not in matching clusters."),
        (
            "ARI",
            f"{found.ari:.3f}",
            "Adjusted Rand index of the two clusterings: 1 if they are identical, about 0 if they are random.",
        ),
        ("NMI", f"{found.nmi:.3f}", "Normalised mutual information of the two clusterings, from 0 to 1."),
    )
    for column, (label, value, text) in zip(st.columns(len(cells)), cells, strict=True):
        column.metric(label, value, help=text)
    st.markdown(
        "**Cluster overlap**",
        help="Number of images that each pair of clusters shares. Matching clusters are on the diagonal.",
    )
    most = max(int(before.clusters.max(initial=0)), int(after.clusters.max(initial=0))) + 1
    figure = plot_overlap(found, _list_names(before, most), _list_names(after, most))
    st.plotly_chart(figure, key="overlap", config={"displayModeBar": False})
    _show_reassigned(before, after, found)


def _open_view(workspace: Workspace, run: str) -> RunView:
    try:
        return open_run_view(workspace, RunStore(workspace).open(run))
    except NotFoundError as error:
        raise NotFoundError(format_run_error(workspace, run, error)) from None


@st.cache_data(show_spinner=False, max_entries=8)
def _compare(first: str, second: str, _before: RunView, _after: RunView) -> Comparison:
    """Compare two runs; cached by the versions of their views, because views cannot be hashed."""
    del first, second
    return compare_runs(_before.analysis, _after.analysis)


def _list_names(view: RunView, count: int) -> tuple[str, ...]:
    names = view.cluster_names
    return tuple(f"{number} {names[number]}" if number in names else str(number) for number in range(count))


def _show_reassigned(before: RunView, after: RunView, found: Comparison) -> None:
    moves = group_reassigned_images(found)
    if not moves:
        show_caption("No images were reassigned: both runs have the same clusters.")
        return

    def format_group(move: Reassignment) -> str:
        clusters = f"{before.format_cluster(move.before)} → {after.format_cluster(move.after)}"
        return f"{clusters}: {format_count(len(move.ids), 'image')}"

    titles = {index: format_group(move) for index, move in enumerate(moves)}
    st.markdown(
        "**Reassigned images**", help="Images that are not in the cluster that matches their cluster in the first run."
    )
    chosen = st.selectbox(
        "Reassigned images", [None, *titles], key=f"moved-{before.name}-{after.name}", label_visibility="collapsed",
        format_func=lambda index: f"Largest of {format_count(len(moves), 'group')}" if index is None else titles[index],
    )  # fmt: skip
    shown, most = moves[:_SHOWN_GROUPS], _IMAGES_PER_GROUP
    if chosen is not None:
        shown, most = (moves[chosen],), _IMAGES_OF_ONE_GROUP
    groups = [_build_group(before, after, move, most) for move in shown]
    show_reassigned_images(after, groups, key=f"reassigned-{before.name}-{after.name}")
    if chosen is None and len(moves) > _SHOWN_GROUPS:
        show_caption("Select a group above to see more of its images, or a smaller group.")


def _build_group(before: RunView, after: RunView, move: Reassignment, most: int) -> ReviewGroup:
    images = build_tiles(after, after.find_rows(move.sample(most)))
    return ReviewGroup(
        key=f"{move.before}-{move.after}",
        before=build_side(before, move.before),
        after=build_side(after, move.after),
        images=images,
        labels=(None,) * len(images),
        total=len(move.ids),
        can_expand=False,
    )
