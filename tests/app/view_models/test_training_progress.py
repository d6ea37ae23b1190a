"""Progress of a run on the Train page, from handmade status and metrics."""

from __future__ import annotations

import numpy as np
import pytest

from app.view_models.training_progress import (
    build_progress_view,
    compute_first_result_epoch,
    compute_result_epoch,
    count_cluster_sizes,
    describe_partial_result,
    format_stage_titles,
    summarize_sizes,
)
from crlc.runs.state import RunState, RunStatus
from crlc.training.health import find_warnings
from crlc.training.presets import FROZEN_HEADS
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace
from tests.fixtures.handmade_dataset import build_numbered_paths, write_handmade_dataset
from tests.fixtures.handmade_run import write_handmade_result

ONE_STAGE = TrainSettings().to_json()
TWO_STAGES = FROZEN_HEADS.replace(finetune_epochs=2).to_json()


def record(kind: str, step: int, seconds: float, stage: str = "training", **content: object) -> dict[str, object]:
    return {
        "kind": kind,
        "step": step,
        "stage": stage,
        "timing": {"seconds": seconds, "images_per_second": 50.0},
        **content,
    }


def status(state: str, step: int, **more: object) -> RunStatus:
    content = {"state": state, "step": step, "steps": 100, "epoch": step // 10, "epochs": 10, "stage": "training"}
    return RunStatus.from_json({**content, **more})


def test_progress_estimates_time_left_from_the_current_stage():
    records = [
        record("stage", 0, 0.0, "clusters"),
        record("epoch", 10, 1.0, "clusters"),
        record("stage", 10, 1.0, "fine-tuning"),
        {"kind": "step", "step": 20, "stage": "fine-tuning", "loss": 1.0},
        record("epoch", 20, 21.0, "fine-tuning", acc=0.5),
    ]
    view = build_progress_view(status("running", 30, stage="fine-tuning"), records, TWO_STAGES)
    assert view.seconds_left == 140.0  # 70 steps; 10 steps of this stage took 20 s
    assert (view.fraction, view.headline) == (0.3, "Stage 2 of 2: fine-tuning, epoch 4 of 10")
    assert (view.images_per_second, view.seconds, view.latest["acc"], view.is_training) == (50.0, 21.0, 0.5, True)


def test_progress_shows_the_preparation():
    view = build_progress_view(
        status("running", 0, preparing="Computing features", done=430, total=1000), [], ONE_STAGE
    )
    assert (view.fraction, view.headline, view.seconds_left) == (0.43, "Computing features 43%", None)


@pytest.mark.parametrize(
    ("run_status", "state", "headline", "left"),
    [
        (status("running", 0), "running", "Epoch 1 of 10", None),
        (status("finished", 100), "finished", "Epoch 10 of 10", None),
        (status("stopped", 25), "stopped", "Epoch 2 of 10", None),
        (status("queued", 0), "queued", "Preparing", None),
        (status("failed", 25, message="interrupted: its process is gone."), "interrupted", "Epoch 2 of 10", None),
        (status("failed", 25, message="the loss is not a number"), "failed", "Epoch 2 of 10", None),
        (RunStatus(RunState.INTERRUPTED), "interrupted", "Epoch 0 of 0", None),
    ],
)  # fmt: skip
def test_progress_shows_state_and_epoch(run_status: RunStatus, state: str, headline: str, left: float | None):
    view = build_progress_view(run_status, [], ONE_STAGE)
    assert (view.state, view.headline, view.seconds_left) == (state, headline, left)


def test_progress_shows_the_newest_warnings():
    small = {"kind": "small-batch", "text": "few images"}
    records = [
        record("stage", 0, 0.0, warnings=[small]),
        record("epoch", 10, 1.0, warnings=[{"kind": "collapse", "text": "one holds all"}]),
        record("epoch", 20, 2.0, warnings=[{"kind": "dead-clusters", "text": "two are empty"}]),
    ]
    assert build_progress_view(status("running", 20), records, ONE_STAGE).warnings == ("few images", "two are empty")
    assert build_progress_view(status("running", 20), records[:2], ONE_STAGE).warnings == (
        "few images",
        "one holds all",
    )


def test_warnings_advise_with_the_labels_of_the_widgets():
    stalled, collapsed, dead = (
        find_warnings(
            {"cluster_information": information, "clusters": 10, "clusters_found": found, "largest_share": share}, 0.5
        )
        for information, found, share in ((0.01, 10, 0.1), (0.5, 10, 0.8), (0.5, 7, 0.2))
    )
    texts = []
    for (warning,) in (stalled, collapsed, dead):
        records = [record("epoch", 10, 1.0, warnings=[warning.to_json()])]
        texts += build_progress_view(status("running", 20), records, ONE_STAGE).warnings
    for text, fact in zip(texts, ("0.01", "80%", "3 of 10"), strict=True):
        assert fact in text
    for text, label in zip(texts, ("Learning rate", "Entropy weight λ1", "Entropy weight λ1"), strict=True):
        assert label in text
        assert "--" not in text
        assert "_" not in text


def test_stage_title_of_a_single_stage_is_empty():
    assert format_stage_titles(ONE_STAGE) == {"training": ""}
    assert list(format_stage_titles(TWO_STAGES).values()) == ["Stage 1 of 2: clusters", "Stage 2 of 2: fine-tuning"]


def test_first_result_epoch_is_the_first_evaluation_with_clusters():
    assert compute_first_result_epoch(TrainSettings().replace(epochs=60, evaluations=20).to_json()) == 3
    assert compute_first_result_epoch(TrainSettings().replace(epochs=4, evaluations=20).to_json()) == 1
    pretrained = TrainSettings().replace(method="two-stage", pairs="neighbours", pretrain_epochs=50, epochs=50)
    # Only the second stage, from epoch 51 on, trains clusters.
    assert compute_first_result_epoch(pretrained.replace(evaluations=10).to_json()) == 60
    assert compute_first_result_epoch(pretrained.replace(pretrain_epochs=7, epochs=1, evaluations=2).to_json()) == 8


def test_describe_partial_result_names_epoch_and_sample():
    metadata = {"step": 30, "images": 200, "of": 200}
    assert compute_result_epoch(metadata, status("running", 40)) == 3
    assert "epoch 3 of 10" in describe_partial_result(metadata, status("running", 40))
    assert compute_result_epoch({**metadata, "epoch": 2}, status("running", 40)) == 2  # stages of different length
    assert "sample" not in describe_partial_result(metadata, status("running", 40))
    assert "200 of 5,000 images" in describe_partial_result({**metadata, "of": 5000}, status("stopped", 40))


def test_summarize_sizes_counts_found_clusters_and_the_largest():
    assert summarize_sizes([60, 39, 1]) == ("2 of 3", "60%")  # the mean size is 33.3: 1 is less than a tenth of it
    assert summarize_sizes([]) == ("-", "-")


def test_count_cluster_sizes_of_a_damaged_result_is_empty(workspace: Workspace):
    run = write_handmade_result(workspace, write_handmade_dataset(workspace.root, build_numbered_paths(6)))
    assert count_cluster_sizes(run) == [3, 3]
    file = next(run.path.glob("result-*/cluster.npy"))
    np.save(file, np.full(6, np.nan))
    (run.path / "result.json").touch()  # sizes are cached per result
    assert count_cluster_sizes(run) == []
