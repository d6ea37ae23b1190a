"""The table of classes against clusters, by hand."""

from __future__ import annotations

import numpy as np

from app.figures.confusion import confusion_figure, plain
from crlc.analysis.with_classes import class_report


def test_shares_counts_and_names():
    clusters = np.array([2, 2, 2, 0, 0, 0, 1])
    classes = np.array([0, 0, 0, 0, 1, 1, -1])  # the image in cluster 1 has none
    report = class_report(np.eye(4, dtype=np.float32)[clusters], clusters, classes)
    figure = confusion_figure(report, ("<b>cat</b>", "dog"), lambda number: f"cluster {number}")
    (heat,) = figure.data
    np.testing.assert_allclose(heat.z, [[0.75, 0.25], [0, 1]])
    assert np.asarray(heat.customdata).tolist() == [[3, 1], [0, 2]]
    assert list(figure.layout.xaxis.ticktext) == ["cluster 2", "cluster 0"]
    assert list(figure.layout.yaxis.ticktext) == ["&lt;b&gt;cat&lt;/b&gt;", "dog"]
    assert heat.hovertext[1][0] == "class dog<br>cluster cluster 2"


def test_long_names_are_shortened():
    assert plain("x" * 30) == "x" * 23 + "…"
