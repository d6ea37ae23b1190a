"""Training use-cases without the CLI: prepare, estimate, start, resume, summarise."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from crlc.errors import UsageError
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.services.run_preparation import RunRequest, SuggestClusters, TrainingEvents
from crlc.services.run_summary import DAMAGED, summarize_run, summarize_run_or_damage
from crlc.services.train import estimate_runs, prepare_run, resume_run, start_run, stop_run
from crlc.training.distributed import ComputeContext
from crlc.training.request import TrainRequest
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

CPU = ComputeContext(torch.device("cpu"))
FAST = TrainRequest(values={"epochs": 2}, assignments=("subheads=2", "batch_size=64"))


def test_start_run_trains_and_reports_events(workspace: Workspace, small_set: Path):
    notes: list[str] = []
    created: list[RunFolder] = []
    events = TrainingEvents(note=notes.append, created=created.append)
    prepared = prepare_run(workspace, RunRequest(str(small_set), FAST), CPU, events)
    assert (prepared.dataset.name, len(prepared.images), RunStore(workspace).list_ids()) == ("set", 200, [])
    result = start_run(workspace, prepared, CPU, events)
    assert result.state is RunState.FINISHED
    assert [run.id for run in created] == [result.run.id]
    assert "end-to-end" in notes[0]
    summary = summarize_run(result.run)
    assert (summary.state, summary.epoch, summary.epochs) == ("finished", 2, 2)
    assert summary.metrics["cluster_information"] == result.metrics["cluster_information"]
    with pytest.raises(UsageError, match="finished"):
        resume_run(workspace, "last", CPU)
    with pytest.raises(UsageError, match="finished"):
        stop_run(workspace, "last")


def test_estimate_runs_of_all_presets_are_in_order_and_create_nothing(workspace: Workspace, small_set: Path):
    request = TrainRequest("balanced", values={"subheads": 2})
    estimates = estimate_runs(workspace, RunRequest(str(small_set), request, clusters=SuggestClusters(5)), CPU)
    assert list(estimates) == ["balanced", "quick", "best"]
    assert 0 < estimates["quick"].time.high < estimates["balanced"].time.high < estimates["best"].time.high
    assert {(one.images, one.settings.model.clusters) for one in estimates.values()} == {(200, 2)}
    assert RunStore(workspace).list_ids() == []
    paper = TrainRequest("paper-cifar10", values={"subheads": 1}, assignments=("image_size=16", "backbone=small"))
    assert list(estimate_runs(workspace, RunRequest("set", paper), CPU)) == ["paper-cifar10"]


def test_prepare_run_uses_the_suggested_number_of_clusters(workspace: Workspace, small_set: Path):
    prepared = prepare_run(workspace, RunRequest(str(small_set), FAST, clusters=SuggestClusters(5)), CPU)
    assert prepared.settings.model.clusters == prepared.metadata["cluster_count"]["suggestion"] == 2


def test_resume_run_continues_a_stopped_run(workspace: Workspace, small_set: Path):
    prepared = prepare_run(workspace, RunRequest(str(small_set), FAST), CPU)
    stopped = start_run(workspace, prepared, CPU).run
    stopped.checkpoint_file.unlink()
    stopped.write_status(RunState.STOPPED, epoch=0, epochs=2, step=0)
    assert resume_run(workspace, stopped.id, CPU).state is RunState.FINISHED


@pytest.mark.parametrize(
    ("request_options", "fact"),
    [
        ({"labels": "workspace"}, "parent"),
        ({"parent": "last"}, "labels=None"),
        ({"parent": "last", "labels": "workspace", "clusters": 4}, "clusters"),
        ({"parent": "last", "labels": "workspace", "split": "train"}, "split"),
    ],
)
def test_prepare_run_rejects_incomplete_semi_requests(workspace: Workspace, small_set: Path, request_options, fact):
    with pytest.raises(UsageError, match=fact):
        prepare_run(workspace, RunRequest(str(small_set), **request_options), CPU)


def test_summarize_run_or_damage_reports_a_damaged_run(tmp_path: Path):
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    (run.path / "run.json").write_text("{")
    summary = summarize_run_or_damage(run)
    assert (summary.run, summary.state) == ("run", DAMAGED)
    assert "run.json" in summary.message
    assert set(summary.to_json()["metrics"].values()) == {None}
