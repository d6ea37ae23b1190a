"""Curves of runs: what training lowers, what it finds, and how that compares with classes where they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

HEIGHT = 250
TERMS = {
    "loss": ("Total", "#8C8C8C"),
    "probability": ("Clusters (PC)", "#0072B2"),
    "entropy": ("Entropy", "#E69F00"),
    "feature": ("Features (FC)", "#009E73"),
    "penalty": ("Penalty", "#CC79A7"),
    "labels": ("Labels", "#D55E00"),
}
MEASURES = {"acc": ("ACC", "#0072B2"), "nmi": ("NMI", "#D55E00"), "ari": ("ARI", "#009E73")}
CERTAINTY = {
    "cluster_information": ("Cluster information", "#0072B2"),
    "cluster_information_mean": ("mean of subheads", "#56B4E9"),
    "subhead_agreement": ("agreement of subheads", "#D55E00"),
}
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")
DASHES = ("solid", "dash", "dot")
_MOST_POINTS = 400
_FEW_POINTS = 12
_MARKED = "#D55E00"
_NOTHING = 1e-4
Record = Mapping[str, Any]
Points = tuple[list[float], list[float]]


def points_of(records: Sequence[Record], name: str, kinds: Sequence[str], steps_per_epoch: float) -> Points:
    """Epochs and values of one metric, where it is known; of very many every so-manieth and the last."""
    found = [
        (record["step"] / steps_per_epoch, float(record[name]))
        for record in records
        if record["kind"] in kinds and record.get(name) is not None
    ]
    step = -(-len(found) // _MOST_POINTS) or 1
    kept = found[::step] + (found[-1:] if (len(found) - 1) % step else [])
    return [x for x, _ in kept], [y for _, y in kept]


def loss_figure(records: Sequence[Record], steps_per_epoch: float) -> go.Figure:
    """The terms of the loss, step by step; those that a run does not have are left out."""
    figure = _figure("Epoch", "Loss (nats)")
    for name, (title, colour) in TERMS.items():
        x, y = points_of(records, name, ("step",), steps_per_epoch)
        if any(abs(value) > _NOTHING for value in y):
            figure.add_scatter(x=x, y=y, name=title, mode=_mode(x), line={"color": colour, "width": 2})
    return _with_stages(figure, records, steps_per_epoch)


def certainty_figure(records: Sequence[Record], steps_per_epoch: float) -> go.Figure:
    """How much the views of an image say of each other's cluster, from worst to best subhead; how they agree."""
    figure = _shares_figure(records, CERTAINTY, steps_per_epoch)
    x, low = points_of(records, "cluster_information_low", ("epoch",), steps_per_epoch)
    _, high = points_of(records, "cluster_information_high", ("epoch",), steps_per_epoch)
    if x:
        figure.add_scatter(
            x=[*x, *reversed(x)], y=[*high, *reversed(low)], name="spread of subheads", fill="toself",
            fillcolor="rgba(86,180,233,.25)", line={"width": 0}, mode="lines", hoverinfo="skip",
        )  # fmt: skip
    return figure


def classes_figure(records: Sequence[Record], steps_per_epoch: float) -> go.Figure:
    """Against known classes."""
    return _shares_figure(records, MEASURES, steps_per_epoch)


def sizes_figure(sizes: Sequence[int]) -> go.Figure:
    """How many images each cluster holds."""
    figure = _figure("Cluster", "Images")
    figure.add_bar(x=list(range(len(sizes))), y=list(sizes), marker_color=SERIES[0], name="Images")
    figure.update_traces(hovertemplate="cluster %{x}: %{y:,} images<extra></extra>")
    figure.update_xaxes(dtick=1 if len(sizes) <= 2 * _FEW_POINTS else None)
    if sizes:
        even = sum(sizes) / len(sizes)
        figure.add_hline(y=even, line={"color": _MARKED, "width": 1, "dash": "dot"})
    return figure


def count_figure(counts: Sequence[int], added_share: Sequence[float], suggestion: int) -> go.Figure:
    """What each further cluster adds, with the suggested number marked."""
    figure = _figure("Clusters", "What one more adds")
    colours = [_MARKED if count == suggestion else SERIES[0] for count in counts]
    sizes = [12 if count == suggestion else 7 for count in counts]
    line, marker = {"color": SERIES[0], "width": 2}, {"color": colours, "size": sizes}
    figure.add_scatter(x=list(counts), y=list(added_share), mode="lines+markers", line=line, marker=marker)
    figure.update_traces(hovertemplate="%{x} clusters: %{y:.0%} of the most it could<extra></extra>")
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    figure.update_xaxes(dtick=2)
    return figure


def overlaid_figure(curves: Mapping[str, Points], title: str, *, share: bool) -> go.Figure:
    """The same metric of several runs, told apart by colour and then by dashes.

    Args:
        curves: by the title of each run, which may hold any letters.
        title: of the metric.
        share: whether it goes from 0 to 1.
    """
    figure = _figure("Epoch", title)
    for number, (name, (x, y)) in enumerate(curves.items()):
        turn, place = divmod(number, len(SERIES))
        line = {"color": SERIES[place], "width": 2, "dash": DASHES[turn % len(DASHES)]}
        figure.add_scatter(x=x, y=y, name=as_text(name), mode=_mode(x), line=line)
    if share:
        figure.update_yaxes(range=[0, 1.02])
    return figure


def as_text(name: str) -> str:
    """A name from outside for Plotly, which would read some HTML in it."""
    return escape(name)


def _shares_figure(records: Sequence[Record], names: Mapping[str, tuple[str, str]], per_epoch: float) -> go.Figure:
    figure = _figure("Epoch", "")
    for name, (title, colour) in names.items():
        x, y = points_of(records, name, ("epoch", "end"), per_epoch)
        if y:
            figure.add_scatter(x=x, y=y, name=title, mode=_mode(x), line={"color": colour, "width": 2})
    figure.update_yaxes(range=[0, 1.02])
    return _with_stages(figure, records, per_epoch)


def _with_stages(figure: go.Figure, records: Sequence[Record], steps_per_epoch: float) -> go.Figure:
    """Mark where a stage after the first began."""
    begun = {record["step"] for record in records if record["kind"] == "stage" and record["step"] > 0}
    for step in sorted(begun):
        figure.add_vline(x=step / steps_per_epoch, line={"color": SERIES[-1], "width": 1, "dash": "dot"})
    return figure


def _mode(x: Sequence[float]) -> str:
    return "lines+markers" if len(x) <= _FEW_POINTS else "lines"


def _figure(x_title: str, y_title: str) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        height=HEIGHT,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        showlegend=None,
        hovermode="closest",
        uirevision="kept",  # zoom and hidden curves stay while new points come in
    )
    figure.update_xaxes(title_text=x_title, rangemode="tozero")
    figure.update_yaxes(title_text=y_title)
    return figure
