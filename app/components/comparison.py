"""Two runs of a data set side by side: agreement, matched clusters, images that moved."""

from __future__ import annotations

import streamlit as st

from app.components.moves import MOVED, show_move
from app.components.plain import show_caption, show_error
from app.exploring.opened import open_run
from app.exploring.subject import RunSubject
from app.figures.compare import overlap_figure
from app.moves import moves_of
from crlc.analysis.compare import Comparison
from crlc.errors import CrlcError
from crlc.workspace import Workspace
from crlc.workspace.run_comparison import compare
from crlc.workspace.runs import Runs

_ROWS_OF_ONE = 5
_MOVES_AT_ONCE = 5


def show_comparison(workspace: Workspace, first: str, second: str) -> None:
    """Compare two runs by their ids."""
    runs = Runs(workspace)
    try:
        before, after = (open_run(workspace, runs.open(run)) for run in (first, second))
        found = _compared(before.version, after.version, before, after)
    except CrlcError as error:
        show_error(str(error))
        return
    cells = (
        ("Images in both", f"{found.images:,}", "Only these are compared."),
        ("Stayed", f"{found.same_share:.1%}", "Images whose cluster in one run is the match of that in the other."),
        ("Moved", f"{len(found.moved_ids):,} images", "Images that are in another than the matching cluster."),
        ("ARI", f"{found.ari:.3f}", "Adjusted Rand index of the two groupings: 1 for the same, 0 as by chance."),
        ("NMI", f"{found.nmi:.3f}", "Normalised mutual information: what one grouping tells of the other, 0 to 1."),
    )
    for column, (label, value, text) in zip(st.columns(len(cells)), cells, strict=True):
        column.metric(label, value, help=text)
    st.markdown("**Which clusters go together**", help="Images in both clusters; matched ones are on the diagonal.")
    most = max(int(before.clusters.max(initial=0)), int(after.clusters.max(initial=0))) + 1
    figure = overlap_figure(found, _names(before, most), _names(after, most))
    st.plotly_chart(figure, key="overlap", config={"displayModeBar": False})
    _show_moved(before, after, found)


@st.cache_data(show_spinner=False, max_entries=8)
def _compared(first: str, second: str, _before: RunSubject, _after: RunSubject) -> Comparison:
    """Once for each two states, by which the answer is remembered; the subjects themselves cannot be."""
    del first, second
    return compare(_before.analysis, _after.analysis)


def _names(subject: RunSubject, count: int) -> tuple[str, ...]:
    names = subject.names
    return tuple(f"{number} {names[number]}" if number in names else str(number) for number in range(count))


def _show_moved(before: RunSubject, after: RunSubject, found: Comparison) -> None:
    moves = moves_of(found)
    if not moves:
        show_caption("No image moved: both runs have the same groups.")
        return
    titles = {
        place: f"{before.cluster_text(move.before)} → {after.cluster_text(move.after)}: {len(move.ids):,} images"
        for place, move in enumerate(moves)
    }
    st.markdown("**Images that moved**", help="From a cluster of the first run to one that does not match it.")
    chosen = st.selectbox(
        "Images that moved", [None, *titles], key=f"moved-{before.name}-{after.name}", label_visibility="collapsed",
        format_func=lambda place: f"the largest of {len(moves):,} moves" if place is None else titles[place],
    )  # fmt: skip
    if chosen is not None:
        show_move(before, after, moves[chosen], most=_ROWS_OF_ONE * MOVED)
        return
    for move in moves[:_MOVES_AT_ONCE]:
        show_move(before, after, move)
    if len(moves) > _MOVES_AT_ONCE:
        show_caption("Choose a move above to see more of its images, or one of the smaller ones.")
