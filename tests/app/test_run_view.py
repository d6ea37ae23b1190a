"""A run as the Train page shows it, from status and metrics written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.cluster_sizes import found_and_largest
from app.run_view import epoch_of, first_look, stage_titles, unfinished_words, view_of
from crlc.training.health import warnings_of
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


def test_what_to_try_is_said_in_the_words_of_the_page():
    stalled, collapsed, dead = (
        warnings_of(
            {"cluster_information": information, "clusters": 10, "clusters_found": found, "largest_share": share}, 0.5
        )
        for information, found, share in ((0.01, 10, 0.1), (0.5, 10, 0.8), (0.5, 7, 0.2))
    )
    said = []
    for (warning,) in (stalled, collapsed, dead):
        records = [line("epoch", 10, 1.0, warnings=[warning.to_json()])]
        said += view_of(status("running", 20), records, ONE_STAGE).warnings
    assert said[0].startswith("Views of an image say almost nothing of each other's cluster (cluster information 0.01)")
    assert said[1].startswith("One cluster holds 80% of the images. If the groups are not really that uneven")
    assert said[2].startswith("3 of 10 clusters hold next to nothing. Next time: fewer Clusters")
    for text, label in zip(said, ("Learning rate", "Entropy weight λ1", "Entropy weight λ1"), strict=True):
        assert label in text
        assert "--" not in text
        assert "_" not in text


def test_a_single_stage_needs_no_name():
    assert stage_titles(ONE_STAGE) == {"training": ""}
    assert list(stage_titles(TWO_STAGES).values()) == ["Stage 1 of 2: clusters", "Stage 2 of 2: fine-tuning"]


def test_when_clusters_can_be_looked_at_first():
    assert first_look(replace(TrainSettings(), epochs=60, evaluations=20).to_json()) == 3
    assert first_look(replace(TrainSettings(), epochs=4, evaluations=20).to_json()) == 1
    pretrained = replace(TrainSettings(), method="two-stage", pairs="neighbours", pretrain_epochs=50, epochs=50)
    assert first_look(replace(pretrained, evaluations=10).to_json()) == 60  # only the second stage finds some
    assert first_look(replace(pretrained, pretrain_epochs=7, epochs=1, evaluations=2).to_json()) == 8


def test_a_result_on_its_way_says_what_it_is_of():
    facts = {"step": 30, "images": 200, "of": 200}
    assert epoch_of(facts, status("running", 40)) == 3
    assert unfinished_words(facts, status("running", 40)) == (
        "Not finished: clusters after epoch 3 of 10; training goes on"
    )
    assert unfinished_words({**facts, "of": 5000}, status("stopped", 40)) == (
        "Not finished: clusters after epoch 3 of 10, a sample of 200 of 5,000 images; the Train page can resume it"
    )


def test_clusters_found_and_the_largest():
    assert found_and_largest([60, 39, 1]) == ("2 of 3", "60%")  # an even share is 33.3, a tenth of it 3.3
    assert found_and_largest([]) == ("-", "-")
