"""Stages of a run: their plan, and the stage of a step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crlc.training.presets import FROZEN_HEADS
from crlc.training.run_length import RunLength, StageLength, plan_length
from crlc.training.settings import TrainSettings
from crlc.training.stages import plan_stages
from tests.fixtures.training_runs import FROZEN, TINY, TWO_STAGE, make_shape_images


@pytest.mark.parametrize(
    ("settings", "names"),
    [(TINY, ["training"]), (TWO_STAGE, ["representation", "clusters"]), (FROZEN, ["clusters"])],
    ids=["end-to-end", "two-stage", "frozen"],
)
def test_plan_stages_depends_on_the_method(settings: TrainSettings, names: list[str]):
    assert [stage.name for stage in plan_stages(settings)] == names


def test_plan_stages_adds_fine_tuning_with_its_own_epochs_and_rate():
    frozen, tuned = plan_stages(FROZEN.replace(finetune_epochs=2, finetune_learning_rate=0.01))
    assert (frozen.uses_frozen_features, tuned.uses_frozen_features) == (True, False)
    assert (tuned.settings.stages.epochs, tuned.settings.optimization.learning_rate) == (2, 0.01)


def test_fine_tuning_of_the_presets_has_no_feature_loss_and_that_of_earlier_runs_keeps_theirs():
    frozen, tuned = plan_stages(FROZEN_HEADS.replace(finetune_epochs=2))
    assert [stage.settings.feature_loss.feature_weight for stage in (frozen, tuned)] == [1.0, 0.0]
    earlier = TrainSettings.from_json(
        {name: value for name, value in frozen.settings.to_json().items() if name != "finetune_feature_weight"}
    )
    assert plan_stages(earlier)[1].settings.feature_loss.feature_weight == 1.0


@pytest.mark.parametrize(
    ("step", "number", "first_step", "end_step", "first_epoch"),
    [(0, 0, 0, 12, 0), (11, 0, 0, 12, 0), (12, 1, 12, 18, 3), (18, 1, 12, 18, 3)],
)
def test_locate_stage_gives_the_end_of_the_run_to_the_last_stage(
    step: int, number: int, first_step: int, end_step: int, first_epoch: int
):
    length = RunLength(32, (StageLength(3, 4), StageLength(3, 2)))
    position = length.locate_stage(plan_stages(TWO_STAGE), step)
    assert (position.number, position.first_step, position.end_step) == (number, first_step, end_step)
    assert position.first_epoch == first_epoch


def test_run_length_counts_the_epochs_of_stages_with_different_steps():
    length = RunLength(32, (StageLength(3, 4), StageLength(3, 2)))
    assert (length.epochs, length.steps) == (6, 18)
    assert [length.count_epochs(step) for step in (0, 3, 4, 12, 13, 14, 18)] == [0, 0, 1, 3, 3, 4, 6]
    assert [step for step in range(1, 19) if length.is_epoch_end(step)] == [4, 8, 12, 14, 16, 18]


def test_second_stage_counts_its_steps_by_the_images_that_l_cluster_is_for():
    images = replace(make_shape_images(96), clusterable=np.arange(96) < 40)
    length = plan_length(plan_stages(TWO_STAGE.replace(batch_size=16)), images, TWO_STAGE.replace(batch_size=16))
    assert [stage.steps_per_epoch for stage in length.stages] == [6, 2]
    small = plan_length(plan_stages(TWO_STAGE), replace(images, clusterable=np.arange(96) < 20), TWO_STAGE)
    assert (small.batch_size, [stage.steps_per_epoch for stage in small.stages]) == (20, [4, 1])
