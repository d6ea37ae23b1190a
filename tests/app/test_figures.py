"""Figures, from numbers written by hand."""

from __future__ import annotations

import numpy as np

from app.figures.compare import overlap_figure
from app.figures.curves import (
    certainty_figure,
    classes_figure,
    count_figure,
    loss_figure,
    overlaid_figure,
    points_of,
    sizes_figure,
)
from app.moves import Move, moves_of
from crlc.analysis.compare import compare_runs

RECORDS = [
    {"kind": "stage", "step": 0},
    {"kind": "step", "step": 5, "loss": 4.0, "probability": 3.0, "penalty": 0.0, "labels": 0.0},
    {"kind": "step", "step": 10, "loss": 2.0, "probability": 1.0, "penalty": 0.0, "labels": 0.0},
    {"kind": "epoch", "step": 10, "loss": 3.0, "cluster_information": 0.25, "acc": None},
    {"kind": "epoch", "step": 20, "loss": 2.0, "cluster_information": 0.5, "acc": 0.75},
    {"kind": "end", "step": 20, "acc": 0.8},
]


def drawn(figure) -> dict[str, tuple[list[float], list[float]]]:
    return {trace.name: (list(trace.x), list(trace.y)) for trace in figure.data}


def test_loss_terms_that_are_nothing_are_left_out():
    assert drawn(loss_figure(RECORDS, 10)) == {
        "Total": ([0.5, 1.0], [4.0, 2.0]),
        "Clusters (PC)": ([0.5, 1.0], [3.0, 1.0]),
    }


def test_epochs_with_what_is_known():
    assert drawn(certainty_figure(RECORDS, 10)) == {"Cluster information": ([1.0, 2.0], [0.25, 0.5])}
    assert drawn(classes_figure(RECORDS, 10)) == {"ACC": ([2.0, 2.0], [0.75, 0.8])}
    assert classes_figure([], 10).data == ()


def test_the_spread_of_subheads_is_a_band():
    records = [
        {"kind": "epoch", "step": step, "cluster_information_low": low, "cluster_information_high": low + 0.5}
        for step, low in ((10, 0.1), (20, 0.2))
    ]
    x, y = drawn(certainty_figure(records, 10))["spread of subheads"]
    assert x == [1.0, 2.0, 2.0, 1.0]
    assert y == [0.6, 0.7, 0.2, 0.1]


def test_later_stages_are_marked():
    records = [*RECORDS, {"kind": "stage", "step": 10, "stage": "clusters"}]
    assert [shape.x0 for shape in loss_figure(records, 10).layout.shapes] == [1.0]
    assert [shape.x0 for shape in classes_figure(records, 10).layout.shapes] == [1.0]
    assert not loss_figure(RECORDS, 10).layout.shapes  # the first one begins at the axis


def test_very_many_points_are_thinned_and_the_last_is_kept():
    records = [{"kind": "step", "step": number, "loss": float(number)} for number in range(1, 1004)]
    x, y = points_of(records, "loss", ("step",), 1)
    assert len(x) <= 401
    assert (x[0], x[-1], y[-1]) == (1.0, 1003.0, 1003.0)
    assert len(points_of(records[:400], "loss", ("step",), 1)[0]) == 400


def test_sizes_with_an_even_share_marked():
    figure = sizes_figure([30, 10])
    assert list(figure.data[0].y) == [30, 10]
    assert figure.layout.shapes[0].y0 == 20
    assert not sizes_figure([]).layout.shapes


def test_the_suggested_number_is_marked():
    figure = count_figure([2, 3, 4], [0.9, 0.8, 0.2], 3)
    sizes = figure.data[0].marker.size
    assert sizes.index(max(sizes)) == 1


def test_titles_of_runs_are_shown_as_text():
    figure = overlaid_figure({"<a href='http://x'>b</a>": ([1.0], [0.5]), "two": ([1.0], [0.2])}, "ACC", share=True)
    assert figure.data[0].name == "&lt;a href=&#x27;http://x&#x27;&gt;b&lt;/a&gt;"
    assert figure.data[0].line.color != figure.data[1].line.color
    many = overlaid_figure({str(n): ([0.0], [0.0]) for n in range(14)}, "Loss", share=False)
    assert len({(trace.line.color, trace.line.dash) for trace in many.data}) == 14


def test_two_runs_side_by_side():
    ids = np.arange(1, 9)
    found = compare_runs(ids, np.array([0, 0, 0, 0, 1, 1, 1, 1]), ids, np.array([1, 1, 1, 0, 0, 0, 0, 1]))
    figure = overlap_figure(found, ("0", "1 cats"), ("0", "1"))
    assert [list(row) for row in figure.data[0].z] == [[3, 1], [1, 3]]  # matched ones on the diagonal
    assert (list(figure.data[0].y), list(figure.data[0].x)) == (["0", "1 cats"], ["1", "0"])
    moves = moves_of(found)
    assert [(move.before, move.after, move.ids.tolist()) for move in moves] == [(0, 0, [4]), (1, 1, [8])]
    same = compare_runs(ids, np.zeros(8, np.int64), ids, np.zeros(8, np.int64))
    assert moves_of(same) == ()


def test_a_sample_of_moved_images_is_spread_over_all():
    move = Move(0, 1, np.arange(100, 200))
    assert move.sample(3).tolist() == [100, 149, 199]
    assert move.sample(500).tolist() == list(range(100, 200))
