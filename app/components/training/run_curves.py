"""Metrics and curves of one run."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.components.common.safe_text import show_caption
from app.figures.curves import plot_class_metrics, plot_cluster_information, plot_cluster_sizes, plot_loss
from app.view_models.training_progress import TrainingProgressView, summarize_sizes
from crlc.runs.metrics_log import Record
from crlc.training.metric_names import CLASSIFICATION_ACCURACY

_BARE = {"displayModeBar": False}
_METRIC_COLUMNS = (1.05, 1.1, 1.4, 0.8)
"""Widths: `Cluster information` is the longest label."""
_HELP = {
    "Loss": "Training minimises this loss, in nats. PC contrasts the cluster probabilities of two views of an image, "
    "FC contrasts their features, and the entropy term keeps clusters balanced.",
    "Information": "Mutual information between the clusters of two views, 0 to 1: of the selected subhead, the mean of "
    "all subheads, and their range as a band. Agreement: mean NMI between the clusters of the subheads, 0 to 1. "
    "Neither needs ground-truth classes.",
    "Sizes": "Images in each cluster of the newest result. The dotted line marks equal sizes.",
    "Classes": "Comparison with the ground-truth classes, which training never uses. ACC: fraction of images in the "
    "cluster matched to their class. Accuracy (runs with labels): fraction of images without a label whose cluster has "
    "the name of their class. NMI and ARI: agreement of clusters and classes.",
}


def show_numbers(view: TrainingProgressView, sizes: Sequence[int]) -> None:
    """Show the newest metrics in a row."""
    latest = view.latest
    found, largest = summarize_sizes(sizes)
    cells = [
        (
            "Clusters found",
            found,
            "Clusters of the newest result with at least a tenth of the images that equal sizes would give.",
        ),
        ("Largest cluster", largest, "Fraction of the images that are in the largest cluster."),
        ("Cluster information", _format_value(latest.get("cluster_information"), "{:.2f}"), _HELP["Information"]),
    ]
    if latest.get(CLASSIFICATION_ACCURACY) is not None:
        cells.append(("Accuracy", _format_value(latest[CLASSIFICATION_ACCURACY], "{:.1%}"), _HELP["Classes"]))
    elif latest.get("acc") is not None:
        cells.append(("ACC", _format_value(latest["acc"], "{:.1%}"), _HELP["Classes"]))
    for column, (label, value, text) in zip(
        st.columns(_METRIC_COLUMNS), cells, strict=False
    ):  # a fixed number of columns, so that nothing moves
        column.metric(label, value, help=text)


def show_curves(records: Sequence[Record], sizes: Sequence[int], steps_per_epoch: float) -> None:
    """Show small charts at fixed positions, so that nothing moves when points arrive."""
    with_classes = any(record.get("acc") is not None for record in records)
    left, right = st.columns(2)
    with left:
        _show_chart("Cluster information", plot_cluster_information(records, steps_per_epoch), _HELP["Information"])
    with right:
        if with_classes:
            _show_chart("Accuracy against ground truth", plot_class_metrics(records, steps_per_epoch), _HELP["Classes"])
        else:
            _show_chart("Cluster sizes", plot_cluster_sizes(sizes), _HELP["Sizes"])


def show_details(
    view: TrainingProgressView,
    records: Sequence[Record],
    sizes: Sequence[int],
    steps_per_epoch: float,
    stages: Sequence[str],
) -> None:
    """Show the terms of the loss, the speed and the stages, which few users need."""
    with_classes = any(record.get("acc") is not None for record in records)
    with st.expander("Details", key="training-details"):
        speed = _format_value(view.images_per_second, "{:,.0f} images/s")
        show_caption(f"Average speed: {speed}.")
        if len(stages) > 1:
            show_caption(
                "Stages: " + ", then ".join(stages) + ". Dotted lines in the curves mark where a stage starts."
            )
        _show_chart("Loss", plot_loss(records, steps_per_epoch), _HELP["Loss"])
        if with_classes:
            _show_chart("Cluster sizes", plot_cluster_sizes(sizes), _HELP["Sizes"])


def _show_chart(title: str, figure: object, text: str) -> None:
    st.markdown(f"**{title}**", help=text)
    st.plotly_chart(figure, key=f"curve-{title}", config=_BARE)


def _format_value(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
