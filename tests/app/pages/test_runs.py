"""The Runs page, without a browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from app.view_models.run_table import (
    COLUMNS,
    FRACTION_METRICS,
    METRIC_TITLES,
    assign_unique_titles,
    build_rows,
    format_metric_title,
    format_oracle,
    get_run_title,
    list_metrics,
    list_runs,
    select_runs_to_compare,
)
from crlc.formatting import format_count
from crlc.runs.state import RunState
from crlc.services.analyse_run import RunAnalysis
from crlc.services.compare_runs import compare_runs
from crlc.services.run_summary import summarize_run
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore
from tests.fixtures.app_pages import alerts, link_labels, page, read_component_data, run_ids, texts


@pytest.mark.usefixtures("empty")
def test_runs_page_shows_the_next_step_without_runs():
    test = page("runs")
    assert not test.exception
    assert "No runs yet" in texts(test)
    assert link_labels(test) == ["Go to Train"]
    assert not test.dataframe


def test_run_table_has_state_and_metrics(trained: Workspace):
    lines = list_runs(trained)[::-1]
    rows = build_rows(RunStore(trained), lines)
    last = list(RunStore(trained).open(lines[0].id).metrics_log.read())[-1]
    assert (rows[0]["State"], rows[0]["Epochs"], rows[0]["Accuracy"]) == ("finished", "2 of 2", last["acc"])
    assert rows[0]["Time"].endswith(" s")
    assert list(rows[0]) == [name for name in COLUMNS if name != "Dataset"]  # every column has a help text
    two_sets = [lines[0], replace(lines[1], dataset="other")]
    assert [row["Dataset"] for row in build_rows(RunStore(trained), two_sets)] == ["digits", "other"]
    assert select_runs_to_compare(lines, lines[1]) == [lines[1].id, lines[0].id]
    assert select_runs_to_compare(lines, None) == [lines[0].id, lines[1].id]
    assert select_runs_to_compare([], None) == []
    (trained.root / "runs" / lines[0].id / "status.json").write_text("{")
    assert [row["State"] for row in build_rows(RunStore(trained), lines)] == ["damaged", "finished"]
    test = page("runs")
    assert not test.exception
    assert len(test.dataframe[0].value) == 2
    assert test.dataframe[0].proto.placeholder == ""  # not `None` where a run has no value
    assert test.dataframe[0].proto.HasField("placeholder")


def test_unique_titles_number_equal_titles(trained: Workspace):
    line = list_runs(trained)[0]
    titles = ("a", "a", "a (2)", "b")
    assert [one.unique_title for one in assign_unique_titles([replace(line, title=title) for title in titles])] == [
        "a", "a (2)", "a (2) (2)", "b",
    ]  # fmt: skip


def test_runs_page_renames_a_run_in_place(trained: Workspace):
    first, second = run_ids(trained)
    test = page("runs", run=first)
    test.text_input(key=f"title-{first}").set_value("  <b>my</b>   run ")
    test.button(key="rename-run").click().run()
    assert not test.exception
    assert RunStore(trained).open(first).read_metadata()["title"] == "<b>my</b> run"
    assert run_ids(trained) == [first, second]
    assert test.sidebar.selectbox[1].options[1] == "<b>my</b> run"
    test.text_input(key=f"title-{first}").set_value("")
    test.button(key="rename-run").click().run()
    assert "quick · 10 clusters" in test.sidebar.selectbox[1].options[1]


def test_runs_page_deletes_a_run_unless_it_is_training(trained: Workspace):
    first, second = run_ids(trained)
    test = page("runs", run=second)
    test.button(key=f"delete-{second}").click().run()
    assert not test.exception
    assert run_ids(trained) == [first]
    run = RunStore(trained).open(first)
    run.write_status(RunState.RUNNING, epoch=1, epochs=2, step=1)  # by this process
    test = page("runs")
    test.button(key=f"delete-{first}").click().run()
    assert f"{get_run_title(trained, first)} is being trained" in alerts(test)
    assert run_ids(trained) == [first]


def test_runs_page_compares_two_runs_and_shows_reassigned_images(trained: Workspace):
    first, second = run_ids(trained)
    test = page("runs", run=second)
    test.selectbox(key="compare-with").select_index(0).run()
    assert not test.exception
    common, _, reassigned, *_ = [one.value for one in test.metric]
    expected = compare_runs(RunAnalysis.open(trained, first), RunAnalysis.open(trained, second))
    assert len(expected.reassigned_ids) > 0
    assert (common, reassigned) == ("200", format_count(len(expected.reassigned_ids), "image"))
    (shown,) = read_component_data(test, "reassigned")
    # All images of a comparison are one response.
    assert len(shown["images"]) == 1
    assert shown["images"][0][0].startswith("/galleries/digits?")
    assert not shown["is_editable"]
    largest = test.selectbox(key=f"moved-{first}-{second}").options[1]
    from_to, count = largest.rsplit(": ", 1)
    assert count == format_count(shown["groups"][0]["total"], "image")
    test.selectbox(key=f"moved-{first}-{second}").select_index(1).run()
    ((group,),) = (one["groups"] for one in read_component_data(test, "reassigned"))
    assert from_to == f"{group['before']['title']} → {group['after']['title']}"
    (trained.root / "runs" / first / "result.json").unlink()
    test.run()
    assert "clusters has no result" in alerts(test)
    assert first not in alerts(test)


def test_runs_page_lists_runs_with_damaged_metadata_and_deletes_them(trained: Workspace):
    first, second = run_ids(trained)
    (trained.root / "runs" / first / "run.json").write_text("{")
    (trained.root / "runs" / first / "status.json").write_text("[]")
    test = page("runs")
    assert not test.exception
    assert first in alerts(test)
    assert "run.json" in alerts(test)
    test.button(key=f"delete-{first}").click().run()
    assert not test.exception
    assert alerts(test) == ""
    assert run_ids(trained) == [second]
    (trained.root / "runs" / second / "run.json").write_text('{"kind": "run", "version": 1}')
    assert second in alerts(page("runs"))  # also if no run is left that can be read


def test_runs_page_shows_the_error_of_a_damaged_result(trained: Workspace):
    first, second = run_ids(trained)
    metadata = json.loads((trained.root / "runs" / first / "result.json").read_text())
    (trained.root / "runs" / first / metadata["folder"] / "cluster.npy").write_bytes(b"")
    test = page("runs", run=second)
    test.selectbox(key="compare-with").select_index(0).run()
    assert not test.exception
    assert f"{first} cannot be used" in alerts(test)


def test_list_metrics_names_what_runs_recorded():
    records = [
        {"kind": "step", "step": 1, "loss": 3.0, "gradient": 1.0},
        {"kind": "epoch", "step": 2, "epoch": 1, "loss": 2.0, "feature_bound": 1.5, "acc": None, "own_metric": 4},
    ]
    assert list_metrics(records) == ["loss", "feature_bound", "own_metric"]
    assert [format_metric_title(name) for name in ("feature_bound", "own_metric")] == [
        "InfoNCE bound of L_FC (nats)", "Own metric",
    ]  # fmt: skip


def test_runs_page_shows_the_oracle_beside_the_accuracy(trained: Workspace):
    run_id = run_ids(trained)[-1]
    run = RunStore(trained).open(run_id)
    last = list(run.metrics_log.read())[-1]
    expected = [f"{last[name]:.1%}" for name in ("acc", "oracle_acc", "oracle_acc_any_epoch")]
    (caption,) = [one for one in page("runs", run=run_id).caption if "Oracle, chosen by classes" in one.value]
    assert re.findall(r"[\d.]+%", caption.value) == expected
    assert "ground-truth classes" in caption.help
    summary = summarize_run(run)
    assert format_oracle(replace(summary, metrics={**summary.metrics, "oracle_acc": None})) == ""
    oracle = [name for name in last if name.startswith("oracle_")]
    assert len(oracle) == 4
    assert all("(oracle)" in format_metric_title(name) for name in oracle)
    assert set(oracle) <= FRACTION_METRICS


def test_runs_page_plots_a_group_with_and_without_a_value(trained: Workspace):
    for run_id, weight in zip(run_ids(trained), (None, 0.0), strict=True):
        run = RunStore(trained).open(run_id)
        metadata = {name: value for name, value in run.read_metadata().items() if name not in ("kind", "version")}
        settings = {**metadata["settings"], "seed": 0, "finetune_feature_weight": weight}
        run.write_metadata({**metadata, "settings": settings, "group": "fine-tuning"})
    test = page("runs")
    assert not test.exception
    assert test.selectbox(key="sweep-group").value == "fine-tuning"


def test_runs_page_overlays_any_metric_and_plots_a_sweep(trained: Workspace):
    for run_id, smoothing in zip(run_ids(trained), (0.01, 0.1), strict=True):
        run = RunStore(trained).open(run_id)
        metadata = {name: value for name, value in run.read_metadata().items() if name not in ("kind", "version")}
        settings = {**metadata["settings"], "smoothing": smoothing}
        run.write_metadata({**metadata, "settings": settings, "group": "smoothing sweep"})
    test = page("runs")
    assert not test.exception
    titles = {METRIC_TITLES[name] for name in ("probability", "feature", "probability_bound", "feature_bound")}
    assert titles <= set(test.selectbox(key="curves-metric").options)
    test.selectbox(key="curves-metric").select("feature_bound").run()
    assert not test.exception
    assert test.selectbox(key="sweep-group").value == "smoothing sweep"
    sweep = next(json.loads(chart.proto.spec) for chart in test.get("plotly_chart") if "Smoothing" in chart.proto.spec)
    assert sweep["data"][1]["x"] == ["0.01", "0.1"]
    assert test.selectbox(key="sweep-metric").value == "acc"
    assert titles <= set(test.selectbox(key="sweep-metric").options)
    logs = [list(RunStore(trained).open(run_id).metrics_log.read()) for run_id in run_ids(trained)]
    for name in ("probability", "feature_bound"):
        test.selectbox(key="sweep-metric").select(name).run()
        assert not test.exception
        sweep = next(
            json.loads(chart.proto.spec) for chart in test.get("plotly_chart") if "Smoothing" in chart.proto.spec
        )
        last = [next(record[name] for record in reversed(log) if record["kind"] == "epoch") for log in logs]
        assert sweep["data"][1]["y"] == last
