"""Runs page: all runs side by side, actions on one run, and comparisons."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from app.components.common.fragments import make_fragment
from app.components.common.heading import show_heading
from app.components.common.safe_text import show_caption, show_error
from app.components.runs.comparison import show_comparison
from app.components.runs.sweeps import show_sweeps
from app.figures.curves import extract_curve, plot_runs
from app.navigation import go_to, link_to
from app.state import runs as state
from app.state.selection import get_selection, request_selection
from app.state.widgets import restore_widget_value
from app.view_models.run_table import (
    COLUMNS,
    FRACTION_METRICS,
    ORACLE_HELP,
    RunEntry,
    TableColumn,
    build_rows,
    format_metric_title,
    format_oracle,
    get_run_title,
    list_damaged_runs,
    list_metrics,
    list_runs,
    select_runs_to_compare,
)
from crlc.errors import CrlcError, DamagedError
from crlc.formatting import format_count
from crlc.runs.metrics_follower import get_follower
from crlc.runs.state import RunState
from crlc.services.run_summary import summarize_run
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

_ACTIVE_STATES = [state.value for state in RunState if state.is_active]
_MAX_CURVES = 14
_POLL_SECONDS = 5.0


def render() -> None:
    """Show the page."""
    workspace = Workspace()
    show_heading("runs")
    lines, runs = list_runs(workspace)[::-1], RunStore(workspace)
    if not lines:
        st.info("No runs yet. Train one: with the sample data it takes a minute or two.")
        link_to("train", "Go to Train")
        _show_damaged(runs)
        return
    rows = build_rows(runs, lines)
    _show_table(lines, rows)
    _show_damaged(runs)
    if any(row["State"] in _ACTIVE_STATES for row in rows):
        make_fragment(_poll_runs, run_every=_POLL_SECONDS)(rows)
    selected = next((line for line in lines if line.id == get_selection().run), None)
    if selected is not None:
        _show_selected(runs, selected)
    _show_curves(runs, lines, selected)
    show_sweeps(workspace, {line.id: line.unique_title for line in lines})
    if selected is not None:
        _show_comparison_form(workspace, lines, selected)


def _poll_runs(shown: list[dict[str, Any]]) -> None:
    """Redraw the page when a run has changed, while one is training."""
    workspace = Workspace()
    if build_rows(RunStore(workspace), list_runs(workspace)[::-1]) != shown:
        st.rerun()


def _show_table(lines: list[RunEntry], rows: list[dict[str, Any]]) -> None:
    st.dataframe(
        rows,
        hide_index=True,
        key=state.TABLE,
        on_select=lambda: _select_row(lines),
        selection_mode="single-row",
        height=min(420, 38 + 35 * len(rows)),
        placeholder="",  # a run of images without classes has no accuracy
        column_config={name: _build_column(name, about) for name, about in COLUMNS.items()},
    )
    show_caption("Select a run to open it everywhere.")


def _show_damaged(runs: RunStore) -> None:
    """Show the runs whose metadata cannot be read, with the reason; they can only be deleted."""
    for damaged in list_damaged_runs(runs.workspace):
        words, delete_box = st.columns([6, 1], vertical_alignment="center")
        with words:
            show_error(f"Damaged run: {damaged.problem}")
        with delete_box.popover("Delete", width="stretch", key=f"delete-damaged-{damaged.id}"):
            show_caption(f"Deletes all files of this run (folder {damaged.id}). Images and labels are not deleted.")
            if st.button("Delete permanently", type="primary", key=f"delete-{damaged.id}"):
                _run_action(partial(_delete, runs, damaged.id, damaged.id))


def _build_column(name: str, about: TableColumn) -> Any:
    kind = st.column_config.TextColumn if about.format is None else partial(
        st.column_config.NumberColumn, format=about.format
    )  # fmt: skip
    return kind(name, help=about.help, width=about.width)


def _select_row(lines: list[RunEntry]) -> None:
    row = state.get_selected_row()
    if row is not None and row < len(lines):
        request_selection(lines[row].dataset, lines[row].id)


def _show_selected(runs: RunStore, line: RunEntry) -> None:
    with st.container(border=True):
        name_box, rename_box, open_box, delete_box = st.columns([4, 1.3, 1.3, 1], vertical_alignment="bottom")
        name = name_box.text_input(
            "Title of the selected run",
            value=line.title,
            key=f"title-{line.id}",
            max_chars=80,
            help=f"Run id: {line.id}",
        )
        if rename_box.button("Rename run", width="stretch", key="rename-run"):
            _run_action(lambda: runs.rename(runs.open(line.id), name))
        if open_box.button("Explore run", width="stretch", key="open-run"):
            go_to("explore")
        with delete_box.popover("Delete", width="stretch", key="delete-run"):
            _show_delete_popover(runs, line)
        facts = [
            f"Started {line.created}",
            format_count(line.settings["clusters"], "cluster"),
            line.settings["method"],
            f"{line.settings['backbone']} backbone",
        ]
        if line.parent:
            facts.append(f"based on {get_run_title(Workspace(), line.parent)}")
        show_caption(" · ".join(facts))
        _show_oracle(runs, line)


def _show_oracle(runs: RunStore, line: RunEntry) -> None:
    """Show the accuracy of the best subhead by classes beside that of the run, where classes are known."""
    try:
        text = format_oracle(summarize_run(runs.open(line.id)))
    except (CrlcError, KeyError, ValueError):
        return  # the table shows the run as damaged
    if text:
        st.caption(text, help=ORACLE_HELP)


def _show_delete_popover(runs: RunStore, line: RunEntry) -> None:
    show_caption(
        f"Deletes the clusters, curves and checkpoints of {line.unique_title}. Images and labels are not deleted."
    )
    if st.button("Delete permanently", type="primary", key=f"delete-{line.id}"):
        _run_action(partial(_delete, runs, line.id, line.unique_title))


def _delete(runs: RunStore, run_id: str, title: str) -> None:
    run = runs.open(run_id)
    try:
        is_active = run.read_status().state.is_active
    except DamagedError:
        is_active = False  # deleting it is all that can be done
    if is_active:
        raise CrlcError(f"{title} is being trained. Stop it on the Train page first.")
    runs.delete(run)


def _run_action(act: Callable[[], object]) -> None:
    try:
        act()
    except (CrlcError, OSError) as error:
        show_error(str(error))
    else:
        st.rerun()


def _show_curves(runs: RunStore, lines: list[RunEntry], selected: RunEntry | None) -> None:
    titles = {line.id: line.unique_title for line in lines}
    shown_box, metric_box = st.columns([3, 1])
    shown = shown_box.multiselect(
        "Runs",
        list(titles),
        default=select_runs_to_compare(lines, selected),
        format_func=titles.__getitem__,
        key=f"curves-{'' if selected is None else selected.id}",
        max_selections=_MAX_CURVES,
        placeholder="Select runs",
    )
    records = {}
    for run_id in shown:
        try:
            run = runs.open(run_id)
            records[titles[run_id]] = (get_follower(run).read_records(), run.read_status().steps_per_epoch)
        except CrlcError as error:
            show_error(str(error))
    metrics = list_metrics(record for log, _ in records.values() for record in log) or ["cluster_information"]
    restore_widget_value("curves-metric", metrics[0], metrics)
    metric = metric_box.selectbox(
        "Metric",
        metrics,
        format_func=format_metric_title,
        key="curves-metric",
        help="Sets the curve to compare: any metric that these runs recorded.",
    )
    curves = {
        title: extract_curve(log, metric, ("epoch", "end"), per_epoch) for title, (log, per_epoch) in records.items()
    }
    figure = plot_runs(curves, format_metric_title(metric), is_fraction=metric in FRACTION_METRICS)
    st.plotly_chart(figure, key="overlaid", config={"displayModeBar": False})
    missing = [name for name, (_, values) in curves.items() if not values]
    if missing:
        show_caption(f"No data for: {', '.join(missing)}")


def _show_comparison_form(workspace: Workspace, lines: list[RunEntry], selected: RunEntry) -> None:
    others = {
        line.id: line.unique_title
        for line in lines
        if line.dataset_uid == selected.dataset_uid and line.id != selected.id
    }
    st.header("Compare two runs", anchor=False)
    if not others:
        show_caption("This dataset has one run. Train another one to compare them.")
        return
    other = st.selectbox(
        "Compare the selected run with",
        list(others),
        index=None,
        format_func=others.__getitem__,
        placeholder="Select another run of this dataset",
        key="compare-with",
        help="Sets the first run of the comparison. The selected run is the second.",
    )
    if other is not None:
        show_comparison(workspace, other, selected.id)
