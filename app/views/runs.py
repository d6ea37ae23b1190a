"""Runs: what there is, side by side, and what to do with one of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from app.components.comparison import show_comparison
from app.components.heading import show_heading
from app.components.plain import show_caption, show_error
from app.figures.curves import overlaid_figure, points_of
from app.pages import go_to, has_page, link_to
from app.run_lines import RunLine, run_lines
from app.run_table import COLUMNS, NAMES, Column, rows_of, together
from app.state import runs as state
from app.state.selection import choose, selection
from crlc.errors import CrlcError
from crlc.jobs.metrics_follower import follower_of
from crlc.workspace import Workspace
from crlc.workspace.runs import Runs

_TRAINS = ("queued", "running", "stopping")
_MOST_TOGETHER = 14
_LOOK_SECONDS = 5.0
_CURVES = {"cluster_information": True, "loss": False, "acc": True, "nmi": True, "ari": True, "largest_share": True}


def render() -> None:
    """The page."""
    workspace = Workspace()
    show_heading("runs")
    lines = run_lines(workspace)[::-1]
    if not lines:
        st.info("There are no runs yet. Train one: with the digits it takes a minute or two.")
        link_to("train", "Go to Train")
        return
    runs = Runs(workspace)
    rows = rows_of(runs, lines)
    _show_table(runs, lines, rows)
    if any(row["State"] in _TRAINS for row in rows):
        st.fragment(_follow, run_every=_LOOK_SECONDS)(rows)
    chosen = next((line for line in lines if line.id == selection().run), None)
    if chosen is not None:
        _show_chosen(runs, chosen)
    _show_curves(runs, lines, chosen)
    if chosen is not None:
        _ask_for_comparison(workspace, lines, chosen)


def _follow(shown: list[dict[str, Any]]) -> None:
    """While something trains: draw the page anew when there is something new to show."""
    workspace = Workspace()
    if rows_of(Runs(workspace), run_lines(workspace)[::-1]) != shown:
        st.rerun()


def _show_table(runs: Runs, lines: list[RunLine], rows: list[dict[str, Any]]) -> None:
    st.dataframe(
        rows,
        hide_index=True,
        key=state.TABLE,
        on_select=lambda: _take_row(lines),
        selection_mode="single-row",
        height=min(420, 38 + 35 * len(rows)),
        column_config={name: _column(name, about) for name, about in COLUMNS.items()},
    )
    damaged = len(runs.ids()) - len(lines)
    unread = f" {damaged} more cannot be read: run.json in their folders is damaged." if damaged > 0 else ""
    show_caption(f"Choose a row to look at that run; all pages then show it.{unread}")


def _column(name: str, about: Column) -> Any:
    kind = st.column_config.TextColumn if about.format is None else partial(
        st.column_config.NumberColumn, format=about.format
    )  # fmt: skip
    return kind(name, help=about.help, width=about.width)


def _take_row(lines: list[RunLine]) -> None:
    row = state.selected_row()
    if row is not None and row < len(lines):
        choose(lines[row].dataset, lines[row].id)


def _show_chosen(runs: Runs, line: RunLine) -> None:
    with st.container(border=True):
        name_box, rename_box, open_box, delete_box = st.columns([4, 1, 1.4, 1], vertical_alignment="bottom")
        name = name_box.text_input(
            "Title of the chosen run", value=line.title, key=f"title-{line.id}", max_chars=80, help=f"Its id: {line.id}"
        )
        if rename_box.button("Rename", width="stretch", key="rename-run"):
            _do(lambda: runs.rename(runs.open(line.id), name))
        target = "explore" if has_page("explore") else "train"
        if open_box.button("Explore" if target == "explore" else "Show its training", width="stretch", key="open-run"):
            go_to(target)
        with delete_box.popover("Delete", width="stretch"):
            _ask_to_delete(runs, line)
        facts = [
            line.id,
            f"begun {line.created}",
            f"{line.settings['clusters']} clusters",
            line.settings["method"],
            line.settings["backbone"],
        ]
        if line.parent:
            facts.append(f"goes on from {line.parent}")
        show_caption(" · ".join(facts))


def _ask_to_delete(runs: Runs, line: RunLine) -> None:
    show_caption(f"The clusters, curves and checkpoints of {line.label} are removed. Images and labels stay.")
    if st.button("Delete for good", type="primary", key=f"delete-{line.id}"):
        _do(lambda: _delete(runs, line.id))


def _delete(runs: Runs, run_id: str) -> None:
    run = runs.open(run_id)
    if run.status()["state"] in _TRAINS:
        raise CrlcError(f"{run_id} is being trained. Stop it on the Train page first.")
    runs.delete(run)


def _do(act: Callable[[], object]) -> None:
    try:
        act()
    except (CrlcError, OSError) as error:
        show_error(str(error))
    else:
        st.rerun()


def _show_curves(runs: Runs, lines: list[RunLine], chosen: RunLine | None) -> None:
    titles = {line.id: line.label for line in lines}
    shown_box, metric_box = st.columns([3, 1])
    shown = shown_box.multiselect(
        "Curves of",
        list(titles),
        default=together(lines, chosen),
        format_func=titles.__getitem__,
        key=f"curves-{'' if chosen is None else chosen.id}",
        max_selections=_MOST_TOGETHER,
        placeholder="Choose runs",
    )
    metric = metric_box.selectbox("Metric", list(_CURVES), format_func=NAMES.__getitem__, key="curves-metric")
    curves = {}
    for run_id in shown:
        try:
            run = runs.open(run_id)
            status = run.status()
            per_epoch = status["steps"] / status["epochs"] if status.get("steps") and status.get("epochs") else 1.0
            curves[titles[run_id]] = points_of(follower_of(run).records(), metric, ("epoch", "end"), per_epoch)
        except CrlcError as error:
            show_error(str(error))
    figure = overlaid_figure(curves, NAMES[metric], share=_CURVES[metric])
    st.plotly_chart(figure, key="overlaid", config={"displayModeBar": False})
    missing = [name for name, (_, values) in curves.items() if not values]
    if missing:
        show_caption(f"Not known for: {', '.join(missing)}")


def _ask_for_comparison(workspace: Workspace, lines: list[RunLine], chosen: RunLine) -> None:
    others = {line.id: line.label for line in lines if line.dataset_uid == chosen.dataset_uid and line.id != chosen.id}
    st.subheader("Compare two", anchor=False)
    if not others:
        show_caption("There is only one run of this data set. Train another to compare it with.")
        return
    other = st.selectbox(
        "Compare the chosen run with",
        list(others),
        index=None,
        format_func=others.__getitem__,
        placeholder="Choose another run of this data set",
        key="compare-with",
        help="The other one counts as the first: images moved from its clusters to those of the chosen run.",
    )
    if other is not None:
        show_comparison(workspace, other, chosen.id)
