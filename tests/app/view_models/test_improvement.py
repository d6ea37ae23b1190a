"""Labels for the next run, and the job that trains it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from app.view_models.improvement import (
    SUFFICIENT_LABELS,
    build_semi_arguments,
    collect_training_labels,
    describe_risk,
    find_improvement_job,
)
from app.view_models.view_cache import open_run_view
from crlc.annotations.store import AnnotationStore
from crlc.clusters.clustering import ClusterEditor
from crlc.jobs.job import JobState, create_job
from crlc.services.check_labels import LabelReport
from crlc.workspace import Workspace
from tests.fixtures.handmade_run import place_on_circle, write_handmade_result
from tests.fixtures.tiny_run import CLUSTERS, CONFIDENCES, import_tiny_dataset


def test_training_labels_come_with_warnings(workspace: Workspace, tmp_path: Path):
    folder = tmp_path / "set"
    import_tiny_dataset(workspace, folder)
    (folder / "c" / "copy.png").write_bytes((folder / "c" / "00000.png").read_bytes())
    workspace.import_dataset(str(folder))
    dataset = workspace.open_dataset("set")
    run = write_handmade_result(
        workspace,
        dataset,
        z=place_on_circle(list(range(13))),
        clusters=[*CLUSTERS, 2],
        confidences=[*CONFIDENCES, 0.9],
        count=3,
    )
    run.write_metadata({**run.read_metadata(), "manifest_version": dataset.version})
    view = open_run_view(workspace, run)
    with AnnotationStore(dataset) as annotations:
        assert len(collect_training_labels(view, annotations)) == 0
        annotations.label([1, 2, 3, 4], "cat")
        annotations.label([9], "dog")
        annotations.label([13], "fox")
        given = collect_training_labels(view, annotations)
        assert (len(given), given.moved) == (6, 0)
        contradiction, unsupported, few = given.labels.warnings
        assert "c/00000.png is 'dog' and c/copy.png is 'fox'" in contradiction
        assert "'fox'" in unsupported
        assert "'dog'" not in unsupported
        assert f"{SUFFICIENT_LABELS} labels: 'dog', 'fox'" in few
        # Images that were moved into a named cluster are used only on request.
        editor = ClusterEditor(annotations, view.analysis.clustering)
        editor.set_name(1, "bird")
        editor.move([10, 1], 1)
        without_moves = collect_training_labels(view, annotations)
        assert (len(without_moves), without_moves.moved) == (6, 1)
        with_moves = collect_training_labels(view, annotations, with_moves=True)
        assert with_moves.labels.to_mapping()[10] == "bird"
        assert len(with_moves) == 7


def test_find_improvement_job_returns_the_newest_relevant_job():
    arguments = build_semi_arguments("set", "one", with_moves=True)
    assert arguments == ["set", "--method", "semi", "--parent", "one", "--labels", "workspace+moved"]
    other = create_job(["train", "set"], "set", "app")
    mine = create_job(["train", *arguments], "set", "app")
    assert find_improvement_job([other, mine], "one") is mine
    assert find_improvement_job([other, mine], "two") is None
    assert find_improvement_job([mine.finish(JobState.FINISHED)], "one") is None
    assert find_improvement_job([mine.finish(JobState.FAILED, "why")], "one").error == "why"


def test_risk_is_described_only_if_the_labels_predict_less_than_the_clusters_before():
    report = LabelReport(12, 10, 10, (), np.empty(0, np.int64))
    assert describe_risk(None) is None
    assert describe_risk(report) is None
    text = describe_risk(replace(report, correct=8))
    assert text is not None
    assert "8 of 12" in text
    assert "10" in text
