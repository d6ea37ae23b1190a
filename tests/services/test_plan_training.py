"""Runs planned within the time budgets of the presets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from crlc.runs.state import RunState
from crlc.services.plan_training import TrainingPlanner, read_past_step_seconds, suits_frozen_backbone
from crlc.services.run_preparation import RunRequest
from crlc.services.train import prepare_run, start_run
from crlc.training.distributed import ComputeContext
from crlc.training.images import TrainingImages
from crlc.training.planning import RunPlan
from crlc.training.request import TrainRequest
from crlc.training.time_budget import PRESET_SECONDS
from crlc.training.time_estimate import make_step_key
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

CPU = torch.device("cpu")


def draw_shapes(count: int) -> np.ndarray:
    """Draw discs, rings, crosses and hatched discs, each at a random place: pixels do not tell them apart."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[:32, :32]
    images = np.empty((count, 32, 32))
    for number in range(count):
        (left, top), radius = random.uniform(9, 23, 2), random.uniform(5, 8)
        distance = np.hypot(x - left, y - top)
        across, down = abs(x - left), abs(y - top)
        is_cross = ((across < 1.5) & (down < radius)) | ((down < 1.5) & (across < radius))
        hatched = (distance < radius) & ((x + y) // 2 % 2 == 0)
        images[number] = (distance < radius, abs(distance - radius) < 1.5, is_cross, hatched)[number % 4]
    return (220 * images + random.normal(10, 5, images.shape)).clip(0, 255).astype(np.uint8)


def draw_digits(count: int) -> np.ndarray:
    return (load_digits().images[:count] * 15).astype(np.uint8).repeat(4, axis=1).repeat(4, axis=2)


def to_images(grey: np.ndarray) -> TrainingImages:
    return TrainingImages.from_array(grey[..., None].repeat(3, axis=3))


def plan_quick(
    workspace: Workspace, grey: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, **more
) -> RunPlan:
    """Plan the preset quick for images of 32 px with a budget of so many seconds."""
    np.savez(tmp_path / "grey.npz", images=grey)
    dataset, _ = workspace.import_dataset(str(tmp_path / "grey.npz"))
    monkeypatch.setitem(PRESET_SECONDS, "quick", seconds)
    request = TrainRequest(**{"values": {"clusters": 4}, **more})
    return TrainingPlanner(workspace, CPU).plan(dataset, request, to_images(grey))


@pytest.mark.slow
def test_suits_frozen_backbone_where_features_group_and_pixels_do_not():
    assert suits_frozen_backbone(to_images(draw_shapes(400)), 4, CPU)
    assert not suits_frozen_backbone(to_images(draw_digits(400)), 10, CPU)


def test_plan_keeps_a_preset_that_fits(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stages = plan_quick(workspace, draw_shapes(300), tmp_path, monkeypatch, 1e6).settings.stages
    assert (stages.method, stages.epochs) == ("end-to-end", 60)


@pytest.mark.slow
def test_plan_uses_a_frozen_backbone_where_training_takes_much_too_long(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan = plan_quick(workspace, draw_shapes(300), tmp_path, monkeypatch, 0.5)
    assert (plan.settings.stages.method, plan.settings.model.frozen) == ("two-stage", True)
    assert "32 px takes about" in plan.reason


def test_plan_uses_smaller_images_where_pixels_describe_them_better(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan = plan_quick(workspace, draw_digits(300), tmp_path, monkeypatch, 0.5)
    assert (plan.settings.stages.method, plan.settings.data.image_size) == ("end-to-end", 16)
    assert plan.settings.stages.epochs < 60
    assert "instead of 60 epochs" in plan.reason


@pytest.mark.parametrize(
    ("request_values", "expected"),
    [
        ({"method": "end-to-end"}, {"method": "end-to-end", "image_size": 32, "epochs": 1}),
        ({"values": {"epochs": 30, "clusters": 4}}, {"method": "end-to-end", "image_size": 32, "epochs": 30}),
        ({"assignments": ("stages.epochs=30",)}, {"method": "end-to-end", "image_size": 32, "epochs": 30}),
    ],
)
def test_plan_keeps_what_the_request_names(
    workspace: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request_values: dict[str, object],
    expected: dict[str, object],
):
    settings = plan_quick(workspace, draw_shapes(300), tmp_path, monkeypatch, 0.01, **request_values).settings
    assert {name: settings.as_dict()[name] for name in expected} == expected


def test_read_past_step_seconds_of_finished_runs(workspace: Workspace, small_set: Path):
    assert read_past_step_seconds(workspace) == {}
    request = TrainRequest(values={"epochs": 2}, assignments=("subheads=2", "batch_size=50"))
    compute = ComputeContext(CPU)
    run = start_run(workspace, prepare_run(workspace, RunRequest(str(small_set), request), compute), compute).run
    settings = prepare_run(workspace, RunRequest("set", request), compute).settings
    seconds = run.metrics_log.summarize().seconds
    assert read_past_step_seconds(workspace) == {make_step_key(settings, "cpu"): pytest.approx(seconds / 8)}
    run.write_status(RunState.STOPPED, epoch=1, epochs=2, step=4)
    (RunStore(workspace).open("last").path / "run.json").write_text("{")  # a damaged run does not matter
    assert read_past_step_seconds(workspace) == {}
