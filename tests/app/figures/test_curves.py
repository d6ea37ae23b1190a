"""Curves and bars, from records written by hand."""

from __future__ import annotations

from app.figures.curves import (
    extract_curve,
    plot_class_metrics,
    plot_cluster_count,
    plot_cluster_information,
    plot_cluster_sizes,
    plot_loss,
    plot_runs,
    plot_sweep,
)

RECORDS = [
    {"kind": "stage", "step": 0},
    {"kind": "step", "step": 5, "loss": 4.0, "probability": 3.0, "penalty": 0.0, "labels": 0.0},
    {"kind": "step", "step": 10, "loss": 2.0, "probability": 1.0, "penalty": 0.0, "labels": 0.0},
    {"kind": "epoch", "step": 10, "loss": 3.0, "cluster_information": 0.25, "acc": None},
    {"kind": "epoch", "step": 20, "loss": 2.0, "cluster_information": 0.5, "acc": 0.75},
    {"kind": "end", "step": 20, "acc": 0.8},
]


def get_points(figure) -> dict[str, tuple[list[float], list[float]]]:
    return {trace.name: (list(trace.x), list(trace.y)) for trace in figure.data}


def test_plot_loss_omits_terms_that_are_zero():
    assert get_points(plot_loss(RECORDS, 10)) == {
        "Total": ([0.5, 1.0], [4.0, 2.0]),
        "Clusters (PC)": ([0.5, 1.0], [3.0, 1.0]),
    }


def test_plots_show_the_epochs_with_known_values():
    assert get_points(plot_cluster_information(RECORDS, 10)) == {"Selected": ([1.0, 2.0], [0.25, 0.5])}
    assert get_points(plot_class_metrics(RECORDS, 10)) == {"ACC": ([2.0, 2.0], [0.75, 0.8])}
    assert plot_class_metrics([], 10).data == ()


def test_plot_cluster_information_shows_the_range_of_subheads():
    records = [
        {"kind": "epoch", "step": step, "cluster_information_low": low, "cluster_information_high": low + 0.5}
        for step, low in ((10, 0.1), (20, 0.2))
    ]
    x, y = get_points(plot_cluster_information(records, 10))["Range of subheads"]
    assert x == [1.0, 2.0, 2.0, 1.0]
    assert y == [0.6, 0.7, 0.2, 0.1]


def test_plots_mark_later_stages():
    records = [*RECORDS, {"kind": "stage", "step": 10, "stage": "clusters"}]
    assert [shape.x0 for shape in plot_loss(records, 10).layout.shapes] == [1.0]
    assert [shape.x0 for shape in plot_class_metrics(records, 10).layout.shapes] == [1.0]
    assert not plot_loss(RECORDS, 10).layout.shapes  # the first stage starts at the axis


def test_curves_use_the_epochs_of_stages_of_different_length():
    records = [
        {"kind": "stage", "step": 0, "epoch": 0},
        {"kind": "step", "step": 5, "epoch": 1, "loss": 4.0},
        {"kind": "epoch", "step": 10, "epoch": 1, "loss": 3.0},
        {"kind": "stage", "step": 10, "epoch": 1},
        {"kind": "step", "step": 11, "epoch": 2, "loss": 2.0},
        {"kind": "epoch", "step": 12, "epoch": 2, "loss": 2.0},
        {"kind": "step", "step": 13, "epoch": 3, "loss": 1.0},
    ]
    assert extract_curve(records, "loss", ("epoch",), 4) == ([1.0, 2.0], [3.0, 2.0])
    assert extract_curve(records, "loss", ("step",), 4) == ([0.5, 1.5, 2.25], [4.0, 2.0, 1.0])
    assert [shape.x0 for shape in plot_loss(records, 4).layout.shapes] == [1.0]


def test_extract_curve_thins_points_and_keeps_the_last():
    records = [{"kind": "step", "step": number, "loss": float(number)} for number in range(1, 1004)]
    x, y = extract_curve(records, "loss", ("step",), 1)
    assert len(x) <= 401
    assert (x[0], x[-1], y[-1]) == (1.0, 1003.0, 1003.0)
    assert len(extract_curve(records[:400], "loss", ("step",), 1)[0]) == 400


def test_plot_cluster_sizes_marks_the_mean():
    figure = plot_cluster_sizes([30, 10])
    assert list(figure.data[0].y) == [30, 10]
    assert figure.layout.shapes[0].y0 == 20
    assert not plot_cluster_sizes([]).layout.shapes


def test_plot_cluster_count_marks_the_suggestion():
    figure = plot_cluster_count([2, 3, 4], [0.9, 0.8, 0.2], 3)
    sizes = figure.data[0].marker.size
    assert sizes.index(max(sizes)) == 1


def test_plot_runs_escapes_titles_and_distinguishes_runs():
    figure = plot_runs({"<a href='http://x'>b</a>": ([1.0], [0.5]), "two": ([1.0], [0.2])}, "ACC", is_fraction=True)
    assert figure.data[0].name == "&lt;a href=&#x27;http://x&#x27;&gt;b&lt;/a&gt;"
    assert figure.data[0].line.color != figure.data[1].line.color
    # The words at the pointer have the whole name, and no more digits than can be seen.
    assert all("%{fullData.name}" in trace.hovertemplate and "%{y:.3f}" in trace.hovertemplate for trace in figure.data)
    many = plot_runs({str(n): ([0.0], [0.0]) for n in range(14)}, "Loss", is_fraction=False)
    assert len({(trace.line.color, trace.line.dash) for trace in many.data}) == 14


def test_plot_sweep_has_a_point_per_run_and_the_mean_of_equal_values():
    figure = plot_sweep(
        ["0.1", "0.1", "0.5"], [0.4, 0.6, 0.9], ["a", "<b>", "c"], setting="γ", metric="ACC", is_fraction=True
    )
    mean, runs = figure.data
    assert (list(mean.x), list(mean.y)) == (["0.1", "0.5"], [0.5, 0.9])
    assert (list(runs.x), list(runs.y)) == (["0.1", "0.1", "0.5"], [0.4, 0.6, 0.9])
    assert "<b>" not in runs.text
