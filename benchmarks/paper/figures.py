"""Figures of metrics: bars, sweeps over a setting, and curves over the epochs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any

from benchmarks.paper.experiment import BARS, ERRORS, LOSSES, SWEEP, Experiment
from benchmarks.paper.results import FRACTIONS, TrialResult, format_metric, read_error

_PANEL_INCHES = (5.0, 3.6)
_DOTS_PER_INCH = 120
_LOSS_PANELS = {
    "probability": "L_PC",
    "feature": "L_FC",
    "probability_bound": "InfoNCE bound of L_PC (nats)",
    "feature_bound": "InfoNCE bound of L_FC (nats)",
}


def create_panels(columns: int, rows: int = 1, inches: tuple[float, float] = _PANEL_INCHES) -> tuple[Any, list[Any]]:
    """Return a matplotlib figure that needs no display, and its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(columns * inches[0], rows * inches[1]), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def save_figure(figure: Any, file: Path) -> None:
    """Write a figure as PNG."""
    figure.savefig(file, dpi=_DOTS_PER_INCH)


def draw_figure(name: str, experiment: Experiment, results: Sequence[TrialResult], file: Path) -> None:
    """Draw one of `FIGURES` to a PNG file."""
    figure = FIGURES[name](experiment, [result for result in results if result.seeds])
    save_figure(figure, file)


def _draw_bars(experiment: Experiment, results: Sequence[TrialResult]) -> Any:
    """Draw metrics of every trial, with the standard deviation over the seeds and the paper's number."""
    metrics = experiment.bar_metrics or experiment.metrics[:1]
    shown = [result for result in results if any(result.list_values(metric) for metric in metrics)]
    width = 7.5 if len(metrics) == 1 else 5.0
    figure, panels = create_panels(len(metrics), inches=(width, 1.2 + 0.35 * max(1, len(shown))))
    for panel, metric in zip(panels, metrics, strict=True):
        has_number = _draw_bar_panel(panel, metric, shown)
        legend = ", bar: ours, diamond: the paper, on its data" if has_number else ""
        panel.set_xlabel(format_metric(metric) + legend)
        panel.set_yticks(range(len(shown)), [])
        panel.set_ylim(len(shown) - 0.5, -0.5)
    panels[0].set_yticklabels([result.trial.label for result in shown])
    return figure


def _draw_bar_panel(panel: Any, metric: str, results: Sequence[TrialResult]) -> bool:
    """Draw one bar per trial that has the metric, and return whether there is a number of the paper."""
    has_number = False
    for row, result in enumerate(results):
        if result.list_values(metric):
            mean, deviation = _compute_spread(result.list_values(metric), metric)
            panel.barh(row, mean, xerr=deviation, color="#4477aa", height=0.6)
        if metric in result.trial.paper:
            panel.plot(float(result.trial.paper[metric].split()[0]), row, "D", color="#cc6677", markersize=5)
            has_number = True
    return has_number


def _draw_sweep(experiment: Experiment, results: Sequence[TrialResult]) -> Any:
    """Draw ACC against the varied setting, one curve per group; groups with other values get a panel of their own."""
    groups: dict[str, list[TrialResult]] = {}
    for result in results:
        if result.trial.value is not None:
            groups.setdefault(result.trial.group, []).append(result)
    panels: dict[tuple[float, ...], list[str]] = {}
    for name, members in groups.items():
        panels.setdefault(tuple(result.trial.value or 0.0 for result in members), []).append(name)
    figure, axes = create_panels(max(1, len(panels)))
    for panel, (values, names) in zip(axes, panels.items(), strict=False):
        for name in names:
            spreads = [_compute_spread(result.list_values("acc"), "acc") for result in groups[name]]
            panel.errorbar(
                range(len(values)), [mean for mean, _ in spreads], [deviation for _, deviation in spreads],
                marker="o", capsize=3, label=name,
            )  # fmt: skip
        panel.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        panel.set_xlabel(experiment.sweep_name if len(panels) == 1 else names[0])
        panel.set_ylabel("ACC (%)")
        panel.legend()
    return figure


def _draw_losses(_: Experiment, results: Sequence[TrialResult]) -> Any:
    """Draw both losses and both InfoNCE bounds (Eq. 2-3) over the epochs, as means over the seeds."""
    figure, axes = create_panels(2, 2)
    for panel, (name, title) in zip(axes, _LOSS_PANELS.items(), strict=True):
        varied = [result for result in results if result.trial.value is not None]
        for number, result in enumerate(
            varied
        ):  # a trial has one colour in all panels, also where others have no curve
            curve = _average_curves(result, methodcaller("get", name))
            if curve:
                panel.plot(*zip(*curve, strict=True), label=result.trial.label, linewidth=1, color=f"C{number}")
        panel.set_title(title)
        panel.set_xlabel("epoch")
    if axes[0].lines:
        axes[0].legend(fontsize=6)
    return figure


def _draw_errors(_: Experiment, results: Sequence[TrialResult]) -> Any:
    """Draw the classification error over the epochs."""
    figure, (panel,) = create_panels(1)
    for result in results:
        curve = _average_curves(result, read_error)
        if curve:
            panel.plot([epoch for epoch, _ in curve], [100 * error for _, error in curve], label=result.trial.label)
    panel.set_xlabel("epoch")
    panel.set_ylabel("classification error (%)")
    panel.legend()
    return figure


FIGURES: dict[str, Callable[[Experiment, Sequence[TrialResult]], Any]] = {
    BARS: _draw_bars,
    SWEEP: _draw_sweep,
    LOSSES: _draw_losses,
    ERRORS: _draw_errors,
}


def _compute_spread(values: Sequence[float], metric: str) -> tuple[float, float]:
    scale = 100 if metric in FRACTIONS else 1
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return scale * statistics.fmean(values), scale * deviation


def _average_curves(result: TrialResult, read: Callable[[dict[str, Any]], float | None]) -> list[tuple[int, float]]:
    """Return epochs and means over the seeds of a value that some epochs have."""
    by_epoch: dict[int, list[float]] = {}
    for seed in result.seeds:
        for record in seed.epochs:
            value = read(record)
            if value is not None:
                by_epoch.setdefault(record["epoch"], []).append(value)
    return [(epoch, statistics.fmean(values)) for epoch, values in sorted(by_epoch.items())]
