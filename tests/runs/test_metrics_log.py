"""MetricsLog and the summary of its records."""

from __future__ import annotations

from pathlib import Path

from crlc.runs.metrics_log import MetricsLog, MetricsSummary, summarize_metrics


def test_summarize_metrics_returns_the_newest_value_of_each_metric():
    records = [
        {"kind": "epoch", "acc": 0.5, "nmi": 0.4, "timing": {"seconds": 1.0, "images_per_second": 9.0}},
        {"kind": "step", "acc": 0.1},
        {"kind": "end", "acc": 0.7, "nmi": None, "timing": {"seconds": 2.0, "memory_mb": 3.0}},
    ]
    summary = summarize_metrics(records)
    assert (summary.metrics["acc"], summary.metrics["nmi"]) == (0.7, 0.4)
    assert (summary.seconds, summary.images_per_second, summary.peak_memory_mb) == (2.0, None, 3.0)


def test_summarize_metrics_keeps_warnings_about_the_run_and_the_newest_epoch():
    small, collapse = {"kind": "small-batch", "text": "a"}, {"kind": "collapse", "text": "b"}
    records = [{"kind": "stage", "warnings": [small]}, {"kind": "epoch", "warnings": [collapse]}]
    assert summarize_metrics(records).warnings == (small, collapse)
    assert summarize_metrics([*records, {"kind": "epoch"}]).warnings == (small,)


def test_metrics_log_summary_follows_the_file(tmp_path: Path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    assert log.summarize() == MetricsSummary()
    log.append({"kind": "epoch", "acc": 0.5})
    assert log.summarize().metrics["acc"] == 0.5
    log.append({"kind": "epoch", "acc": 0.6})
    assert log.summarize().metrics["acc"] == 0.6
