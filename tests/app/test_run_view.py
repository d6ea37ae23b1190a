"""A run as the Train page shows it, from status and metrics written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.cluster_sizes import found_and_largest
from app.run_view import stage_titles, view_of
from crlc.training.presets import FROZEN_HEADS
from crlc.training.settings import TrainSettings

ONE_STAGE = TrainSettings().to_json()
TWO_STAGES = replace(FROZEN_HEADS, finetune_epochs=2).to_json()


def line(kind: str, step: int, seconds: float, stage: str = "training", **content: object) -> dict[str, object]:
    return {
        "kind": kind,
        "step": step,
        "stage": stage,
        "timing": {"seconds": seconds, "images_per_second": 50.0},
        **content,
    }


def status(state: str, step: int, **more: object) -> dict[str, object]:
    return {"state": state, "step": step, "steps": 100, "epoch": step // 10, "epochs": 10, "stage": "training", **more}


def test_time_left_is_that_of_the_present_stage():
    records = [
        line("stage", 0, 0.0, "clusters"),
        line("epoch", 10, 1.0, "clusters"),
        line("stage", 10, 1.0, "fine-tuning"),
        {"kind": "step", "step": 20, "stage": "fine-tuning", "loss": 1.0},
        line("epoch", 20, 21.0, "fine-tuning", acc=0.5),
    ]
    view = view_of(status("running", 30, stage="fine-tuning"), records, TWO_STAGES)
    assert view.seconds_left == 140.0  # 70 steps, 20 s for 10 of this stage's
    assert (view.share, view.headline) == (0.3, "Stage 2 of 2: fine-tuning, epoch 4 of 10")
    assert (view.images_per_second, view.seconds, view.latest["acc"], view.trains) == (50.0, 21.0, 0.5, True)


def test_preparation_is_shown_as_such():
    view = view_of(status("running", 0, preparing="Computing features", done=430, total=1000), [], ONE_STAGE)
    assert (view.share, view.headline, view.seconds_left) == (0.43, "Computing features 43%", None)


@pytest.mark.parametrize(
    ("said", "state", "headline", "left"),
    [
        (status("running", 0), "running", "Epoch 1 of 10", None),
        (status("finished", 100), "finished", "Epoch 10 of 10", None),
        (status("stopped", 25), "stopped", "Epoch 2 of 10", None),
        (status("queued", 0), "queued", "Preparing", None),
        (status("failed", 25, message="interrupted: its process is gone."), "interrupted", "Epoch 2 of 10", None),
        (status("failed", 25, message="the loss is not a number"), "failed", "Epoch 2 of 10", None),
        ({"state": "failed", "message": "interrupted before it began.", "epoch": 0, "epochs": 0, "step": 0},
         "interrupted", "Epoch 0 of 0", None),
    ],
)  # fmt: skip
def test_states(said: dict[str, object], state: str, headline: str, left: float | None):
    view = view_of(said, [], ONE_STAGE)
    assert (view.state, view.headline, view.seconds_left) == (state, headline, left)


def test_of_warnings_the_newest_word_counts():
    small = {"kind": "small-batch", "text": "few images"}
    records = [
        line("stage", 0, 0.0, warnings=[small]),
        line("epoch", 10, 1.0, warnings=[{"kind": "collapse", "text": "one holds all"}]),
        line("epoch", 20, 2.0, warnings=[{"kind": "dead-clusters", "text": "two are empty"}]),
    ]
    assert view_of(status("running", 20), records, ONE_STAGE).warnings == ("few images", "two are empty")
    assert view_of(status("running", 20), records[:2], ONE_STAGE).warnings == ("few images", "one holds all")


def test_a_single_stage_needs_no_name():
    assert stage_titles(ONE_STAGE) == {"training": ""}
    assert list(stage_titles(TWO_STAGES).values()) == ["Stage 1 of 2: clusters", "Stage 2 of 2: fine-tuning"]


def test_clusters_found_and_the_largest():
    assert found_and_largest([60, 39, 1]) == ("2 of 3", "60%")  # an even share is 33.3, a tenth of it 3.3
    assert found_and_largest([]) == ("-", "-")
