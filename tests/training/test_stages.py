"""Stages of a run: their plan, and the stage of a step."""

from __future__ import annotations

import pytest

from crlc.training.presets import FROZEN_HEADS
from crlc.training.settings import TrainSettings
from crlc.training.stages import locate_stage, plan_stages
from tests.fixtures.training_runs import FROZEN, TINY, TWO_STAGE


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
    ("step", "number", "first_step", "end_step"), [(0, 0, 0, 12), (11, 0, 0, 12), (12, 1, 12, 24), (24, 1, 12, 24)]
)
def test_locate_stage_gives_the_end_of_the_run_to_the_last_stage(
    step: int, number: int, first_step: int, end_step: int
):
    position = locate_stage(plan_stages(TWO_STAGE), step, steps_per_epoch=4)  # three epochs each
    assert (position.number, position.first_step, position.end_step) == (number, first_step, end_step)
