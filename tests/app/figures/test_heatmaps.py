"""Heat maps of small tables."""

from __future__ import annotations

import numpy as np

from app.figures.curves import escape_text
from app.figures.heatmaps import plot_confusion, plot_overlap
from crlc.analysis.class_metrics import build_class_report
from crlc.analysis.comparison import compare_clusterings


def test_plot_confusion_shows_fractions_counts_and_names():
    clusters = np.array([2, 2, 2, 0, 0, 0, 1])
    classes = np.array([0, 0, 0, 0, 1, 1, -1])  # the image in cluster 1 has no class
    report = build_class_report(np.eye(4, dtype=np.float32)[clusters], clusters, classes)
    figure = plot_confusion(report, ("<b>cat</b>", "dog"), lambda number: f"cluster {number}")
    (heat,) = figure.data
    np.testing.assert_allclose(heat.z, [[0.75, 0.25], [0, 1]])
    assert np.asarray(heat.customdata).tolist() == [[3, 1], [0, 2]]
    assert list(figure.layout.xaxis.ticktext) == ["cluster 2", "cluster 0"]
    assert list(figure.layout.yaxis.ticktext) == ["&lt;b&gt;cat&lt;/b&gt;", "dog"]
    assert heat.hovertext[1][0] == "class dog<br>cluster 2"


def test_escape_text_shortens_long_names():
    assert escape_text("x" * 30, 24) == "x" * 23 + "…"
    assert escape_text("<" * 2) == "&lt;&lt;"


def test_plot_overlap_puts_matching_clusters_on_the_diagonal():
    ids = np.arange(1, 9)
    found = compare_clusterings(ids, np.array([0, 0, 0, 0, 1, 1, 1, 1]), ids, np.array([1, 1, 1, 0, 0, 0, 0, 1]))
    figure = plot_overlap(found, ("0", "1 cats"), ("0", "1"))
    assert [list(row) for row in figure.data[0].z] == [[3, 1], [1, 3]]
    assert (list(figure.data[0].y), list(figure.data[0].x)) == (["0", "1 cats"], ["1", "0"])
