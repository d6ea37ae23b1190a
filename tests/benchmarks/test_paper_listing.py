"""List of the experiments of the paper, and the time of their steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.paper import step_timer
from benchmarks.paper.catalogue import EXPERIMENTS
from benchmarks.paper.listing import describe_experiments
from benchmarks.paper.miniature import shrink_experiment
from benchmarks.paper.runs import Setup, TrialRun
from benchmarks.paper.step_timer import StepTime, StepTimer, time_step
from crlc.training.settings import TrainSettings
from crlc.training.stages import Stage

BY_KEY = {experiment.key: experiment for experiment in EXPERIMENTS}


class FixedTimer(StepTimer):
    """Timer of runs that last a minute each."""

    def estimate(self, run: TrialRun, setup: Setup) -> StepTime:  # noqa: ARG002
        return StepTime(60.0, is_extrapolated=run.trial.dataset == "cifar10")


def test_pictures_need_one_seed(tmp_path: Path):
    few = [one.key for one in EXPERIMENTS if one.max_seeds == 1]
    assert few == ["fig2", "a11"]
    timer = FixedTimer(torch.device("cpu"))
    (text,) = describe_experiments([BY_KEY["fig2"]], [0, 1, 2], Setup(tmp_path, device="cpu"), timer)
    assert "runs: 1, of which 0" in text


def test_list_shows_data_and_runs_of_every_experiment(tmp_path: Path):
    experiments = [shrink_experiment(BY_KEY["a2"]), shrink_experiment(BY_KEY["a10-1"]), BY_KEY["table1"]]
    timer = FixedTimer(torch.device("cpu"))
    surfaces, dogs, table = describe_experiments(experiments, [0, 1], Setup(tmp_path, device="cpu"), timer)
    assert surfaces.startswith("a2: ")
    assert "nothing left" in surfaces
    assert "fashion_10k (file)" in dogs
    assert "runs: 6, of which 0" in dogs
    assert "imagenet-dogs (ImageNet)" in table
    assert "runs: 20, of which 0" in table
    assert "about 6 min on this cpu" in dogs
    assert "none of the 6 runs has its data" in dogs
    assert "about 20 min on this cpu" in table
    assert "estimate from smaller batches" in table
    assert "about 12 min for 12 of 20 runs" in table
    assert not list(tmp_path.iterdir())  # nothing was imported or downloaded


def test_step_timer_times_equal_steps_once_and_scales_by_epochs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(step_timer, "time_step", lambda _stage, batch_size, _device: 0.001 * batch_size)
    timer, setup = StepTimer(torch.device("cpu")), Setup(tmp_path, device="cpu")
    simclr, bank, equal_views, alone = (
        timer.estimate(TrialRun(trial, 0), setup) for trial in shrink_experiment(BY_KEY["fig4"]).trials
    )
    assert simclr == alone
    assert not simclr.is_extrapolated
    assert equal_views.seconds == pytest.approx(2 * bank.seconds, rel=0.1)  # evaluations are not doubled
    assert not list(tmp_path.iterdir())


def test_step_timer_times_every_critic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def time_critic(stage: Stage, _batch_size: int, _device: torch.device) -> float:
        return 0.2 if stage.settings.clustering_loss.critic == "neg-js" else 0.05  # one matrix of pairs per cluster

    monkeypatch.setattr(step_timer, "time_step", time_critic)
    timer, setup = StepTimer(torch.device("cpu")), Setup(tmp_path, device="cpu")
    trials = shrink_experiment(BY_KEY["fig3"]).trials[:4]
    times = {trial.label: timer.estimate(TrialRun(trial, 0), setup).seconds for trial in trials}
    assert times["critic = neg-js"] == pytest.approx(4 * times["critic = log-dot"])


def test_step_timer_scales_from_a_small_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    batches = []

    def time_batch(_stage: Stage, batch_size: int, _device: torch.device) -> float:
        batches.append(batch_size)
        return 0.05 * batch_size

    monkeypatch.setattr(step_timer, "time_step", time_batch)
    timer, setup = StepTimer(torch.device("cpu")), Setup(tmp_path, device="cpu")
    plain = timer.estimate(TrialRun(BY_KEY["fig2"].trials[0], 0), setup)
    assert batches == [2, 8]  # 32 images would take longer than a second
    assert plain.is_extrapolated
    # 97 steps of 512 images in each of 2,000 epochs, 20 evaluations of 10,000 of 50,000 images, and one of all.
    assert plain.seconds == pytest.approx(0.05 * 512 * 97 * (2_000 + 0.2 * (20 * 0.2 + 1)))
    semi = timer.estimate(TrialRun(BY_KEY["semi-cifar10"].trials[0], 0), setup)
    assert semi.seconds == pytest.approx(plain.seconds * (1024 + 64) / 1024)
    timer.estimate(TrialRun(BY_KEY["table2"].trials[3], 0), setup)
    assert batches == [2, 8, 2, 8]


def test_time_step_trains_a_frozen_backbone_without_its_weights():
    settings = TrainSettings().replace(image_size=16, batch_size=4, backbone="small")
    frozen = Stage("clusters", settings, freezes_backbone=True)
    assert 0 < time_step(frozen, 4, torch.device("cpu")) < 60
    assert 0 < time_step(Stage("training", settings.replace(view_source="originals")), 4, torch.device("cpu")) < 60
