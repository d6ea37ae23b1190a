"""Which clusters of two runs go together."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from app.figures.curves import as_text
from crlc.analysis.compare import Comparison

_CELL = 26
_MARGIN = 120
_MOST_WITH_NUMBERS = 20


def overlap_figure(found: Comparison, first: Sequence[str], second: Sequence[str]) -> go.Figure:
    """Images in both, for each cluster of the first run and each of the second, so that matching ones lie diagonally.

    Args:
        found: the comparison.
        first: names of the first run's clusters, by number.
        second: names of the second's.
    """
    rows = [line.first for line in found.matched if line.first >= 0]
    columns = [line.second for line in found.matched if line.second >= 0]
    counts = {(line.first, line.second): line.common for line in found.matched if line.common}
    for before, after in zip(found.moved_from.tolist(), found.moved_to.tolist(), strict=True):
        counts[before, after] = counts.get((before, after), 0) + 1
    table = [[counts.get((row, column), 0) for column in columns] for row in rows]
    figure = go.Figure(
        go.Heatmap(
            z=table,
            x=[as_text(_called(second, column)) for column in columns],
            y=[as_text(_called(first, row)) for row in rows],
            colorscale="Blues",
            showscale=False,
            xgap=1,
            ygap=1,
            text=[[f"{count:,}" if count else "" for count in row] for row in table],
            texttemplate="%{text}" if max(len(rows), len(columns)) <= _MOST_WITH_NUMBERS else None,
            hovertemplate="first %{y}, second %{x}: %{z:,} images<extra></extra>",
        )
    )
    figure.update_layout(
        height=max(260, _MARGIN + _CELL * len(rows)),
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        uirevision="kept",
    )
    figure.update_xaxes(title_text="Cluster in the second run", type="category")
    figure.update_yaxes(title_text="Cluster in the first run", type="category", autorange="reversed")
    return figure


def _called(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)
