"""The table of classes against clusters, as a heat map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from crlc.analysis.with_classes import ClassReport

_ROW_HEIGHT, _AROUND, _LEAST = 26, 150, 260
_NUMBERS_UP_TO = 20
_LONGEST = 24


def confusion_figure(
    report: ClassReport, class_names: Sequence[str], cluster_text: Callable[[int], str], *, dark: bool = False
) -> go.Figure:
    """Rows are classes, columns clusters, those matched to a class first; the colour is the share of the class.

    Args:
        report: of the run.
        class_names: in the order of the classes' numbers.
        cluster_text: how a cluster is called.
        dark: whether the page is.
    """
    there = [column for column in range(len(report.order)) if report.confusion[:, column].any()]
    counts = report.confusion[:, there]
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    columns = [plain(cluster_text(int(report.order[column]))) for column in there]
    rows = [plain(name) for name in class_names[: len(counts)]]
    figure = go.Figure(
        go.Heatmap(
            z=share,
            customdata=counts,
            zmin=0,
            zmax=1,
            colorscale=[[0, "#1b2431" if dark else "#f4f6f8"], [1, "#4ea3d8" if dark else "#0077aa"]],
            text=counts if max(counts.shape) <= _NUMBERS_UP_TO else None,
            texttemplate="%{text}" if max(counts.shape) <= _NUMBERS_UP_TO else None,
            hovertemplate="class %{y}<br>cluster %{x}<br>%{customdata:,} images, %{z:.1%} of the class<extra></extra>",
            colorbar={"title": "share of<br>the class", "tickformat": ".0%"},
            xgap=1,
            ygap=1,
        )
    )
    # By position, as two clusters may have one name; the words stand beside it.
    figure.update_traces(x=list(range(len(columns))), y=list(range(len(rows))))
    figure.update_xaxes(tickvals=list(range(len(columns))), ticktext=columns, title="cluster", tickangle=-40)
    figure.update_yaxes(tickvals=list(range(len(rows))), ticktext=rows, title="class", autorange="reversed")
    figure.update_traces(
        hovertext=[[f"class {row}<br>cluster {column}" for column in columns] for row in rows],
        hovertemplate="%{hovertext}<br>%{customdata:,} images, %{z:.1%} of the class<extra></extra>",
    )
    figure.update_layout(
        height=max(_LEAST, _AROUND + _ROW_HEIGHT * len(rows)), margin={"l": 10, "r": 10, "t": 10, "b": 10}
    )
    return figure


def plain(text: str) -> str:
    """Text of others for Plotly, which reads some HTML: shown letter by letter, and shortened."""
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…", quote=False)
