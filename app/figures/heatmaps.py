"""Heat maps: overlap of the clusters of two runs, and confusion of classes and clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go

from app.figures.curves import escape_text
from crlc.analysis.class_metrics import ClassReport
from crlc.analysis.comparison import Comparison

_ROW_HEIGHT_PIXELS = 26
_OVERLAP_MARGIN_PIXELS, _CONFUSION_MARGIN_PIXELS = 120, 150
_MIN_HEIGHT_PIXELS = 260
_MAX_ROWS_WITH_NUMBERS = 20
_MAX_NAME_LENGTH = 24


def plot_overlap(comparison: Comparison, first: Sequence[str], second: Sequence[str]) -> go.Figure:
    """Return a heat map of the number of images that each pair of clusters of two runs shares.

    Matching clusters are on the diagonal.

    Args:
        comparison: comparison of the two runs.
        first: names of the clusters of the first run, by number.
        second: names of the clusters of the second run, by number.
    """
    rows = [match.first for match in comparison.matched if match.first >= 0]
    columns = [match.second for match in comparison.matched if match.second >= 0]
    counts = {(match.first, match.second): match.common for match in comparison.matched if match.common}
    for before, after in zip(comparison.reassigned_from.tolist(), comparison.reassigned_to.tolist(), strict=True):
        counts[before, after] = counts.get((before, after), 0) + 1
    table = [[counts.get((row, column), 0) for column in columns] for row in rows]
    figure = go.Figure(
        go.Heatmap(
            z=table,
            x=[escape_text(_get_name(second, column)) for column in columns],
            y=[escape_text(_get_name(first, row)) for row in rows],
            colorscale="Blues",
            showscale=False,
            xgap=1,
            ygap=1,
            text=[[f"{count:,}" if count else "" for count in row] for row in table],
            texttemplate="%{text}" if max(len(rows), len(columns)) <= _MAX_ROWS_WITH_NUMBERS else None,
            hovertemplate="cluster %{y} in the first run, %{x} in the second: %{z:,} images<extra></extra>",
        )
    )
    figure.update_layout(
        height=max(_MIN_HEIGHT_PIXELS, _OVERLAP_MARGIN_PIXELS + _ROW_HEIGHT_PIXELS * len(rows)),
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        uirevision="kept",
    )
    figure.update_xaxes(title_text="Cluster in the second run", type="category")
    figure.update_yaxes(title_text="Cluster in the first run", type="category", autorange="reversed")
    return figure


def plot_confusion(
    report: ClassReport, class_names: Sequence[str], format_cluster: Callable[[int], str], *, dark: bool = False
) -> go.Figure:
    """Return the confusion matrix of classes (rows) and clusters (columns) as a heat map.

    The colour is the fraction of the class in the cluster.

    Args:
        report: report of a run; clusters that are matched to a class come first.
        class_names: names of the classes, by class number.
        format_cluster: returns the name of a cluster.
        dark: True if the page has a dark background.
    """
    used = [column for column in range(len(report.cluster_order)) if report.confusion[:, column].any()]
    counts = report.confusion[:, used]
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    columns = [escape_text(format_cluster(int(report.cluster_order[column])), _MAX_NAME_LENGTH) for column in used]
    rows = [escape_text(name, _MAX_NAME_LENGTH) for name in class_names[: len(counts)]]
    has_numbers = max(counts.shape) <= _MAX_ROWS_WITH_NUMBERS
    figure = go.Figure(
        go.Heatmap(
            # Indices instead of names, because two class names may be equal after shortening.
            x=list(range(len(columns))),
            y=list(range(len(rows))),
            z=fractions,
            customdata=counts,
            zmin=0,
            zmax=1,
            colorscale=[[0, "#1b2431" if dark else "#f4f6f8"], [1, "#4ea3d8" if dark else "#0077aa"]],
            text=counts if has_numbers else None,
            texttemplate="%{text}" if has_numbers else None,
            hovertext=[[f"class {row}<br>{column}" for column in columns] for row in rows],
            hovertemplate="%{hovertext}<br>%{customdata:,} images, %{z:.1%} of the class<extra></extra>",
            colorbar={"title": "fraction of<br>the class", "tickformat": ".0%"},
            xgap=1,
            ygap=1,
        )
    )
    figure.update_xaxes(tickvals=list(range(len(columns))), ticktext=columns, title="Cluster", tickangle=-40)
    figure.update_yaxes(tickvals=list(range(len(rows))), ticktext=rows, title="Class", autorange="reversed")
    figure.update_layout(
        height=max(_MIN_HEIGHT_PIXELS, _CONFUSION_MARGIN_PIXELS + _ROW_HEIGHT_PIXELS * len(rows)),
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
    )
    return figure


def _get_name(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)
