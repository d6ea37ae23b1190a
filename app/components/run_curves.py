"""The numbers and curves of one run."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.cluster_sizes import found_and_largest
from app.figures.curves import Record, certainty_figure, classes_figure, loss_figure, sizes_figure
from app.run_view import RunView

_BARE = {"displayModeBar": False}
_CELLS = 5
_HELP = {
    "Loss": "What training lowers, in nats. PC compares the cluster probabilities of two views of an image, entropy "
    "keeps clusters even, FC compares features.",
    "Certainty": "Cluster information: how much one view of an image tells of the cluster of another, from 0 (nothing) "
    "to 1 (all); the band goes from the worst to the best of the subheads, each of which tries by itself. Agreement: "
    "how alike the clusters of the subheads are (mean NMI, 0 to 1). No classes are needed for either.",
    "Sizes": "Images in each cluster of the newest result; the dotted line is an even share.",
    "Classes": "Against the classes that came with the data, which training never sees: ACC is the share of images in "
    "the matching cluster, NMI and ARI compare the two groupings.",
}


def show_numbers(view: RunView, sizes: Sequence[int]) -> None:
    """The newest numbers in a row."""
    latest = view.latest
    found, largest = found_and_largest(sizes)
    cells = [
        ("Speed", _with(view.images_per_second, "{:,.0f} img/s"), "Images seen per second, on average."),
        ("Cluster information", _with(latest.get("cluster_information"), "{:.2f}"), _HELP["Certainty"]),
        ("Clusters found", found, "Clusters of the newest result that hold at least a tenth of an even share."),
        ("Largest cluster", largest, "Share of the images that the largest cluster holds."),
    ]
    if latest.get("acc") is not None:
        cells.append(("ACC", _with(latest["acc"], "{:.1%}"), _HELP["Classes"]))
    for column, (label, value, text) in zip(st.columns(_CELLS), cells, strict=False):  # so many from the beginning
        column.metric(label, value, help=text)


def show_curves(records: Sequence[Record], sizes: Sequence[int], steps_per_epoch: float) -> None:
    """Four small charts; each has its place from the beginning, so that nothing moves when it gets its points."""
    with_classes = any(record.get("acc") is not None for record in records)
    left, right = st.columns(2)
    with left:
        _chart("Loss", loss_figure(records, steps_per_epoch), _HELP["Loss"])
        _chart("Sizes of clusters", sizes_figure(sizes), _HELP["Sizes"])
    with right:
        _chart("Certainty", certainty_figure(records, steps_per_epoch), _HELP["Certainty"])
        if with_classes:
            _chart("Against the classes", classes_figure(records, steps_per_epoch), _HELP["Classes"])


def _chart(title: str, figure: object, text: str) -> None:
    st.markdown(f"**{title}**", help=text)
    st.plotly_chart(figure, key=f"curve-{title}", config=_BARE)


def _with(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
