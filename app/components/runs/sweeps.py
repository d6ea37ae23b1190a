"""Sweeps on the Runs page: a metric of the runs of a group against the setting that differs between them."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from app.components.common.safe_text import show_caption
from app.figures.curves import plot_sweep
from app.state.widgets import restore_widget_value
from app.view_models.run_table import FRACTION_METRICS, format_metric_title, list_metrics
from crlc.formatting import format_count
from crlc.services.run_groups import RunGroup, list_run_groups
from crlc.services.run_summary import METRICS
from crlc.workspace import Workspace


def show_sweeps(workspace: Workspace, titles: Mapping[str, str]) -> None:
    """Show one group of runs as a plot; nothing if there is no group.

    Args:
        workspace: workspace of the runs.
        titles: titles of the runs by id.
    """
    groups = {group.name: group for group in list_run_groups(workspace)}
    if not groups:
        return
    st.header("Sweeps", anchor=False)
    group_box, metric_box = st.columns([3, 1])
    restore_widget_value("sweep-group", next(iter(groups)), list(groups))
    group = groups[
        group_box.selectbox(
            "Group",
            list(groups),
            key="sweep-group",
            format_func=lambda name: f"{name} ({format_count(len(groups[name].runs), 'run')})",
            help="Sets the group of runs. Start one on the Train page under Advanced settings, or with `--group`.",
        )
    ]
    metrics = _list_group_metrics(group)
    if group.setting is None:
        show_caption("These runs differ in several settings, or in none: there is no axis to plot them on.")
    elif not metrics:
        show_caption("No run of this group has finished an epoch yet.")
    else:
        restore_widget_value("sweep-metric", metrics[0], metrics)
        metric = metric_box.selectbox("Metric", metrics, format_func=format_metric_title, key="sweep-metric")
        _show_plot(group, group.setting, metric, titles)


def _list_group_metrics(group: RunGroup) -> list[str]:
    """Return the metrics that a run of the group has a value of: those of the table of runs first."""
    found = list_metrics([{"kind": "epoch", **run.metrics} for run in group.runs])
    first = [name for name in METRICS if name in found]
    return first + [name for name in found if name not in first]


def _show_plot(group: RunGroup, setting: str, metric: str, titles: Mapping[str, str]) -> None:
    runs = [run for run in group.runs if metric in run.metrics]
    figure = plot_sweep(
        [run.format_value() for run in runs],
        [float(run.metrics[metric]) for run in runs],
        [titles.get(run.summary.run, run.summary.run) for run in runs],
        setting=setting.replace("_", " ").capitalize(),
        metric=format_metric_title(metric),
        is_fraction=metric in FRACTION_METRICS,
    )
    st.plotly_chart(figure, key="sweep", config={"displayModeBar": False})
    unfinished = len(group.runs) - len(runs)
    if unfinished:
        show_caption(f"{format_count(unfinished, 'run')} of this group has no value yet.")
