"""Metrics and curves of one run."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.figures.curves import Record, plot_class_metrics, plot_cluster_information, plot_cluster_sizes, plot_loss
from app.view_models.training_progress import TrainingProgressView, summarize_sizes
from crlc.training.metric_names import CLASSIFICATION_ACCURACY

_BARE = {"displayModeBar": False}
_METRIC_COLUMNS = 5
_HELP = {
    "Loss": "Training minimises this loss, in nats. PC contrasts the cluster probabilities of two views of an image, "
    "FC contrasts their features, and the entropy term keeps clusters balanced.",
    "Information": "Mutual information between the clusters of two views, 0 to 1; the band spans all subheads. "
    "Agreement: mean NMI between the clusters of the subheads, 0 to 1. Neither needs ground-truth classes.",
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
            "Speed",
            _format_value(view.images_per_second, "{:,.0f} images/s"),
            "Average number of training images per second.",
        ),
        ("Cluster information", _format_value(latest.get("cluster_information"), "{:.2f}"), _HELP["Information"]),
        (
            "Clusters found",
            found,
            "Clusters of the newest result with at least a tenth of the images that equal sizes would give.",
        ),
        ("Largest cluster", largest, "Fraction of the images that are in the largest cluster."),
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
    """Show four small charts at fixed positions, so that nothing moves when points arrive."""
    with_classes = any(record.get("acc") is not None for record in records)
    left, right = st.columns(2)
    with left:
        _show_chart("Loss", plot_loss(records, steps_per_epoch), _HELP["Loss"])
        _show_chart("Cluster sizes", plot_cluster_sizes(sizes), _HELP["Sizes"])
    with right:
        _show_chart("Cluster information", plot_cluster_information(records, steps_per_epoch), _HELP["Information"])
        if with_classes:
            _show_chart("Accuracy against ground truth", plot_class_metrics(records, steps_per_epoch), _HELP["Classes"])


def _show_chart(title: str, figure: object, text: str) -> None:
    st.markdown(f"**{title}**", help=text)
    st.plotly_chart(figure, key=f"curve-{title}", config=_BARE)


def _format_value(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
