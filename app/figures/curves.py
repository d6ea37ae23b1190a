"""Curves of runs: loss terms, cluster information, metrics against ground-truth classes; and bars of cluster sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from crlc.runs.metrics_log import Record
from crlc.training.metric_names import CLASSIFICATION_ACCURACY

_HEIGHT_PIXELS = 250
_LOSS_TERMS = {
    "loss": ("Total", "#8C8C8C"),
    "probability": ("Clusters (PC)", "#0072B2"),
    "entropy": ("Entropy", "#E69F00"),
    "feature": ("Features (FC)", "#009E73"),
    "penalty": ("Penalty", "#CC79A7"),
    "labels": ("Labels", "#D55E00"),
}
_CLASS_METRICS = {
    CLASSIFICATION_ACCURACY: ("Accuracy", "#CC79A7"),
    "acc": ("ACC", "#0072B2"),
    "nmi": ("NMI", "#D55E00"),
    "ari": ("ARI", "#009E73"),
}
_MEAN_OF_SUBHEADS = "cluster_information_mean"
_INFORMATION_CURVES = {
    "cluster_information": ("Selected", "#0072B2"),
    _MEAN_OF_SUBHEADS: ("Mean of subheads", "#56B4E9"),
    "subhead_agreement": ("Agreement", "#D55E00"),
}
_SERIES_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")
_DASHES = ("solid", "dash", "dot")
_MAX_CURVE_POINTS = 400
_MAX_POINTS_WITH_MARKERS = 12
_HIGHLIGHT_COLOUR = "#D55E00"
_ZERO_TOLERANCE = 1e-4
_EPOCH_HOVER = "%{fullData.name}<br>epoch %{x:.1~f}: %{y:.3f}<extra></extra>"
"""Words at the pointer; Plotly's own are `(21, 0.5893936)` and the first letters of the name."""

Points = tuple[list[float], list[float]]


def extract_curve(records: Sequence[Record], name: str, kinds: Sequence[str], steps_per_epoch: float) -> Points:
    """Return the epochs and values of one metric, thinned to about 400 points including the last.

    Args:
        records: content of the metrics log.
        name: name of the metric; records without it are left out.
        kinds: kinds of records to use, such as `step` or `epoch`.
        steps_per_epoch: mean number of steps per epoch, for steps after the last logged epoch.
    """
    found = [record for record in records if record.get("kind") in kinds and isinstance(record.get(name), (int, float))]
    step = -(-len(found) // _MAX_CURVE_POINTS) or 1
    kept = found[::step] + (found[-1:] if (len(found) - 1) % step else [])
    steps = [int(record.get("step", 0)) for record in kept]
    return _convert_steps_to_epochs(steps, records, steps_per_epoch), [float(record[name]) for record in kept]


def _convert_steps_to_epochs(steps: Sequence[int], records: Sequence[Record], steps_per_epoch: float) -> list[float]:
    """Return the epoch of each step, with fractions.

    Epochs of different stages may differ in length: only the first of two stages trains on the images of STL10 without
    a class. The log has the step at the end of each epoch.

    Args:
        steps: numbers of complete steps.
        records: content of the metrics log.
        steps_per_epoch: mean number of steps per epoch, for steps after the last logged epoch.
    """
    logged = {0: 0.0} | {
        int(record["step"]): float(record["epoch"])
        for record in records
        if record.get("kind") == "epoch" and "step" in record and "epoch" in record
    }
    ends = sorted(logged)
    last, epochs = ends[-1], [logged[end] for end in ends]
    after_last = np.maximum(0, np.subtract(steps, last)) / steps_per_epoch
    converted: list[float] = (np.interp(steps, ends, epochs) + after_last).tolist()
    return converted


def plot_loss(records: Sequence[Record], steps_per_epoch: float) -> go.Figure:
    """Return the terms of the loss over the epochs, without terms that are always 0."""
    figure = _create_figure("Epoch", "Loss (nats)")
    for name, (title, colour) in _LOSS_TERMS.items():
        x, y = extract_curve(records, name, ("step",), steps_per_epoch)
        if any(abs(value) > _ZERO_TOLERANCE for value in y):
            figure.add_scatter(x=x, y=y, name=title, mode=_choose_mode(x), line={"color": colour, "width": 2})
    figure.update_traces(hovertemplate=_EPOCH_HOVER)
    return _mark_stages(figure, records, steps_per_epoch)


def plot_cluster_information(records: Sequence[Record], steps_per_epoch: float) -> go.Figure:
    """Return the cluster information of the selected subhead, its range over all subheads, and their agreement.

    The legend has one row, as that of the chart beside it: with more, this chart would be smaller.
    """
    figure = _plot_fractions(records, _INFORMATION_CURVES, steps_per_epoch)
    x, low = extract_curve(records, "cluster_information_low", ("epoch",), steps_per_epoch)
    _, high = extract_curve(records, "cluster_information_high", ("epoch",), steps_per_epoch)
    if x:
        figure.add_scatter(
            x=[*x, *reversed(x)], y=[*high, *reversed(low)], name="Range of subheads", fill="toself",
            fillcolor="rgba(86,180,233,.25)", line={"width": 0}, mode="lines", hoverinfo="skip", showlegend=False,
        )  # fmt: skip
    return figure


def plot_class_metrics(records: Sequence[Record], steps_per_epoch: float) -> go.Figure:
    """Return accuracy, NMI and ARI against the ground-truth classes over the epochs."""
    return _plot_fractions(records, _CLASS_METRICS, steps_per_epoch)


def plot_cluster_sizes(sizes: Sequence[int]) -> go.Figure:
    """Return a bar per cluster with its number of images, and a line at the mean."""
    figure = _create_figure("Cluster", "Images")
    figure.add_bar(x=list(range(len(sizes))), y=list(sizes), marker_color=_SERIES_COLOURS[0], name="Images")
    figure.update_traces(hovertemplate="cluster %{x}: %{y:,} images<extra></extra>")
    figure.update_xaxes(dtick=1 if len(sizes) <= 2 * _MAX_POINTS_WITH_MARKERS else None)
    if sizes:
        mean = sum(sizes) / len(sizes)
        figure.add_hline(y=mean, line={"color": _HIGHLIGHT_COLOUR, "width": 1, "dash": "dot"})
    return figure


def plot_cluster_count(counts: Sequence[int], added_share: Sequence[float], suggestion: int) -> go.Figure:
    """Return the gain of each further cluster, with the suggested number highlighted."""
    figure = _create_figure("Clusters", "Gain from one more cluster")
    colours = [_HIGHLIGHT_COLOUR if count == suggestion else _SERIES_COLOURS[0] for count in counts]
    sizes = [12 if count == suggestion else 7 for count in counts]
    line, marker = {"color": _SERIES_COLOURS[0], "width": 2}, {"color": colours, "size": sizes}
    figure.add_scatter(x=list(counts), y=list(added_share), mode="lines+markers", line=line, marker=marker)
    figure.update_traces(hovertemplate="%{x} clusters: %{y:.0%} of the possible gain<extra></extra>")
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    figure.update_xaxes(dtick=2)
    return figure


def plot_runs(curves: Mapping[str, Points], title: str, *, is_fraction: bool) -> go.Figure:
    """Return one metric of several runs, distinguished by colour and then by dashes.

    Args:
        curves: curves by run title, which may contain any characters.
        title: title of the metric.
        is_fraction: True if the values are from 0 to 1.
    """
    figure = _create_figure("Epoch", title)
    for number, (name, (x, y)) in enumerate(curves.items()):
        dash, colour = divmod(number, len(_SERIES_COLOURS))
        line = {"color": _SERIES_COLOURS[colour], "width": 2, "dash": _DASHES[dash % len(_DASHES)]}
        figure.add_scatter(x=x, y=y, name=escape_text(name), mode=_choose_mode(x), line=line)
    figure.update_traces(hovertemplate=_EPOCH_HOVER)
    if is_fraction:
        figure.update_yaxes(range=[0, 1.02])
    return figure


def plot_sweep(
    values: Sequence[str],
    results: Sequence[float],
    titles: Sequence[str],
    *,
    setting: str,
    metric: str,
    is_fraction: bool,
) -> go.Figure:
    """Return a metric against the value of a setting: a point per run, and a line through the means of equal values.

    Args:
        values: value of the setting of each run, in the order of the axis.
        results: metric of each run.
        titles: title of each run, which may contain any characters.
        setting: title of the setting.
        metric: title of the metric.
        is_fraction: True if the metric is from 0 to 1.
    """
    figure = _create_figure(setting, metric)
    by_value: dict[str, list[float]] = {}
    for value, result in zip(values, results, strict=True):
        by_value.setdefault(value, []).append(result)
    means = [sum(found) / len(found) for found in by_value.values()]
    figure.add_scatter(x=list(by_value), y=means, name="Mean", mode="lines", line={"color": _SERIES_COLOURS[0]})
    figure.add_scatter(
        x=list(values), y=list(results), name="Run", mode="markers", marker={"color": _SERIES_COLOURS[0], "size": 9},
        text=[escape_text(title) for title in titles], hovertemplate="%{text}<br>%{x}: %{y:.3f}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(type="category", rangemode="normal")
    if is_fraction:
        figure.update_yaxes(range=[0, 1.02])
    return figure


def escape_text(text: str, max_length: int | None = None) -> str:
    """Return text from outside, safe for Plotly, which interprets some HTML; shortened to a maximum length."""
    is_long = max_length is not None and len(text) > max_length
    return escape(f"{text[: (max_length or 0) - 1]}…" if is_long else text)


def _plot_fractions(records: Sequence[Record], names: Mapping[str, tuple[str, str]], per_epoch: float) -> go.Figure:
    figure = _create_figure("Epoch", "")
    for name, (title, colour) in names.items():
        x, y = extract_curve(records, name, ("epoch", "end"), per_epoch)
        if y:
            line = {"color": colour, "width": 2}
            is_listed = name != _MEAN_OF_SUBHEADS
            figure.add_scatter(x=x, y=y, name=title, mode=_choose_mode(x), line=line, showlegend=is_listed)
    figure.update_traces(hovertemplate=_EPOCH_HOVER)
    figure.update_yaxes(range=[0, 1.02])
    return _mark_stages(figure, records, per_epoch)


def _mark_stages(figure: go.Figure, records: Sequence[Record], steps_per_epoch: float) -> go.Figure:
    """Add a vertical line where each stage after the first started."""
    starts = {record.get("step", 0) for record in records if record.get("kind") == "stage"} - {0}
    for epoch in _convert_steps_to_epochs(sorted(starts), records, steps_per_epoch):
        figure.add_vline(x=epoch, line={"color": _SERIES_COLOURS[-1], "width": 1, "dash": "dot"})
    return figure


def _choose_mode(x: Sequence[float]) -> str:
    return "lines+markers" if len(x) <= _MAX_POINTS_WITH_MARKERS else "lines"


def _create_figure(x_title: str, y_title: str) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        height=_HEIGHT_PIXELS,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        showlegend=None,
        hovermode="closest",
        uirevision="kept",  # zoom and hidden curves stay while new points arrive
    )
    figure.update_xaxes(title_text=x_title, rangemode="tozero")
    figure.update_yaxes(title_text=y_title)
    return figure
