"""Tests of progress reports."""

from __future__ import annotations

import json

import pytest

from crlc.progress import Progress, ProgressStage


@pytest.mark.parametrize(
    "progress", [Progress("Listing", 3, None, 1.5), Progress("UMAP", 200, 200, 2.5, finished=True, unit="rounds")]
)
def test_progress_round_trips_through_a_line_of_json(progress: Progress):
    line = json.dumps(progress.to_json())
    assert "\n" not in line
    assert Progress.from_json(json.loads(line)) == progress


def test_progress_from_json_refuses_an_incomplete_report():
    with pytest.raises(KeyError, match="done"):
        Progress.from_json({"stage": "Listing"})


def test_progress_estimates_the_time_left_only_with_a_total_and_a_speed():
    assert Progress("Decoding", 500, 2000, 100.0).seconds_left == 15
    assert Progress("Decoding", 500, None, 100.0).seconds_left is None
    assert Progress("Decoding", 0, 2000, 0.0).seconds_left is None


def test_progress_stage_reports_its_end_once():
    reports: list[Progress] = []
    stage = ProgressStage("Decoding", 2, reports.append)
    stage.finish()
    assert reports == []
    stage.advance(2)
    stage.finish()
    assert (reports[-1].done, reports[-1].total, reports[-1].finished) == (2, 2, True)
