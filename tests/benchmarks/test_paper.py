"""Experiments of the paper: every kind of table and figure runs to its end, and a killed sweep continues."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks.paper.__main__ import run_experiment
from benchmarks.paper.catalogue import EXPERIMENTS
from benchmarks.paper.data import DATASETS, DataLocations, find_source
from benchmarks.paper.experiment import Experiment, Trial
from benchmarks.paper.listing import describe_experiments
from benchmarks.paper.miniature import select_datasets, select_paper_trials, shorten_experiment, shrink_experiment
from benchmarks.paper.pictures import find_strips
from benchmarks.paper.report import build_table
from benchmarks.paper.results import SeedResult, TrialResult, read_results, summarize
from benchmarks.paper.runs import Setup, TrialRun, find_run, is_finished, train_run, write_task
from benchmarks.paper.schedule import train_all
from benchmarks.support import ROOT
from crlc.runs.folder import RunFolder
from crlc.training.paper_presets import PAPER_PRESETS
from tests.fixtures.polling import wait_until

BY_KEY = {experiment.key: experiment for experiment in EXPERIMENTS}


def shrink(experiment: Experiment, epochs: int = 1) -> Experiment:
    return shorten_experiment(shrink_experiment(experiment), epochs)


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("paper")
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (60, 28, 28), dtype=np.uint8)
    np.savez(folder / "fashion_10k.npz", images=pixels, labels=np.arange(60) % 10)
    return Setup(folder / "out", DataLocations(files=folder, images=60), device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("key", BY_KEY)
def test_miniature_of_every_experiment_runs_to_its_end(setup: Setup, key: str):
    experiment = shrink(BY_KEY[key])
    # In this process: runs in processes of their own are tested below.
    few = [replace(trial, isolated=False) for trial in (*experiment.trials[:1], *experiment.trials[1:][-1:])]
    experiment = replace(experiment, trials=tuple(few))
    file = run_experiment(experiment, [0], setup, "command", miniature=True)
    trained = [trial for trial in experiment.trials if find_source(trial.dataset, setup.locations) is not None]
    text = file.read_text()
    assert all(f"| {trial.label} | 1 |" in text for trial in trained)
    content = json.loads(file.with_suffix(".json").read_text())
    assert [trial["label"] for trial in content["trials"]] == [trial.label for trial in trained]
    assert all(trial["seeds"][0]["metrics"] for trial in content["trials"])
    assert len(experiment.figures) == text.count("![")
    for figure in experiment.figures:
        with Image.open(file.with_name(f"{file.stem}-{figure}.png")) as image:
            assert image.size[0] > 100
            assert np.asarray(image.convert("L")).std() > 1


@pytest.mark.slow
def test_killed_run_is_resumed_and_finished_runs_are_not_repeated(setup: Setup):
    trial = shrink(BY_KEY["fig3"], epochs=60).trials[0]
    run = TrialRun(replace(trial, changes={**trial.changes, "checkpoint_seconds": 0.0, "log_steps": 1}), 3)
    task = setup.folder / "task.json"
    write_task(run, setup, task)
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.paper.runs", str(task)], cwd=ROOT, text=True)
    try:
        wait_until(lambda: (found := find_run(run, setup)) is not None and found.checkpoint_file.exists(), process)
    finally:
        process.kill()
        process.wait()
    interrupted = find_run(run, setup)
    assert interrupted is not None
    assert not is_finished(run, setup)
    train_run(run, setup)
    assert is_finished(run, setup)
    resumed = find_run(run, setup)
    assert resumed is not None
    assert resumed.id == interrupted.id
    before = resumed.metrics_log.path.stat().st_mtime_ns
    train_run(run, setup)
    assert resumed.metrics_log.path.stat().st_mtime_ns == before


@pytest.mark.slow
def test_runs_of_several_gpus_train_in_processes_of_their_own(setup: Setup):
    trial = shrink(BY_KEY["fig3"]).trials[1]
    runs = [TrialRun(trial, seed) for seed in (10, 11)]
    train_all(runs, setup, gpus=[0, 1])
    assert all(is_finished(run, setup) for run in runs)
    experiment = replace(BY_KEY["fig3"], trials=(trial,))
    (result,) = read_results(experiment, [10, 11, 12], setup)  # seed 12 was not trained
    assert [seed.seed for seed in result.seeds] == [10, 11]


def test_list_shows_data_and_runs_of_every_experiment(tmp_path: Path):
    experiments = [shrink(BY_KEY["a2"]), shrink(BY_KEY["a10-1"]), BY_KEY["table1"]]
    surfaces, dogs, table = describe_experiments(experiments, [0, 1], Setup(tmp_path, device="cpu"), miniature=False)
    assert surfaces.startswith("a2: ")
    assert "nothing left" in surfaces
    assert "fashion_10k (file)" in dogs
    assert "runs: 6, of which 0" in dogs
    assert "imagenet-dogs (ImageNet)" in table
    assert "runs: 20, of which 0" in table


@pytest.mark.parametrize("experiment", [*map(select_paper_trials, EXPERIMENTS), *map(shrink_experiment, EXPERIMENTS)])
def test_trials_have_known_data_and_allowed_settings(experiment: Experiment, tmp_path: Path):
    keys = [TrialRun(trial, 0).compute_key(Setup(tmp_path)) for trial in experiment.trials]
    assert len(set(keys)) >= len(keys) - 1  # one critic of fig3 is the same run as one λ2, one M of A.10.2 as one α
    assert {trial.dataset for trial in experiment.trials} <= set(DATASETS)
    assert {trial.preset for trial in experiment.trials} <= set(PAPER_PRESETS)


def test_key_is_equal_for_equal_settings_and_differs_by_seed_and_data(tmp_path: Path):
    setup = Setup(tmp_path)
    whole = TrialRun(BY_KEY["fig2"].trials[0], 0)
    assert whole.compute_key(setup) == TrialRun(BY_KEY["a11"].trials[0], 0).compute_key(setup)
    explicit = replace(whole.trial, label="other", changes={"critic": "log-dot"})  # the preset's value
    assert TrialRun(explicit, 0).compute_key(setup) == whole.compute_key(setup)
    assert TrialRun(whole.trial, 1).compute_key(setup) != whole.compute_key(setup)
    assert whole.compute_key(replace(setup, locations=DataLocations(images=9))) != whole.compute_key(setup)


def test_miniature_keeps_the_varied_setting_and_doubles_the_epochs_of_equal_views():
    simclr, bank, equal_views, _ = shrink_experiment(BY_KEY["fig4"]).trials
    assert (simclr.changes["epochs"], bank.changes["epochs"], equal_views.changes["epochs"]) == (60, 60, 120)
    sgd = [trial for trial in shrink_experiment(BY_KEY["fig3"]).trials if trial.group == "SGD"]
    assert [trial.changes["feature_weight"] for trial in sgd] == [0.0, 1.0, 3.0, 10.0, 20.0]
    assert {trial.changes["optimizer"] for trial in sgd} == {"sgd"}


def test_select_datasets_keeps_only_their_trials():
    miniature = shrink_experiment(BY_KEY["table1"])
    chosen = select_datasets(miniature, ["fashion_10k"])
    assert [trial.label for trial in chosen.trials] == ["fashion_10k, CRLC", "fashion_10k, C-head only"]


def test_documentation_names_every_experiment_and_only_files_that_exist():
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in text for key in BY_KEY)
    paths = set(re.findall(r"`((?:crlc|tests|benchmarks)/[\w./]+)`", text))
    assert len(paths) > 20
    assert all((ROOT / path).exists() for path in paths), [path for path in paths if not (ROOT / path).exists()]
    functions = set(re.findall(r"`(\w+_\w+)` \(`(crlc/[\w./]+)`\)", text))
    assert all(f"def {name}(" in (ROOT / file).read_text(encoding="utf-8") for name, file in functions), functions


def test_find_strips_sorts_neighbours_by_class_and_cluster():
    classes, clusters = np.array([0, 0, 0, 1, 1]), np.array([7, 7, 8, 7, 8])
    strips = find_strips(clusters, classes, 0, np.array([4, 3, 2, 1]))
    assert {name: found.tolist() for name, found in strips.items()} == {
        "correct": [1],
        "false negative": [2],
        "false positive": [3],
    }


def test_table_has_mean_deviation_and_the_number_of_the_paper(tmp_path: Path):
    assert (summarize([], "acc"), summarize([0.5], "acc")) == ("-", "50.0")
    assert (summarize([0.8, 0.9], "acc"), summarize([2.0, 4.0], "seconds")) == ("85.0 ± 7.1", "3.0 ± 1.4")
    trial = Trial("row", "digits", "paper-cifar10", paper={"acc": "79.9"})
    seeds = tuple(SeedResult(seed, RunFolder(tmp_path), {"acc": acc}, ()) for seed, acc in ((0, 0.8), (1, 0.9)))
    table = build_table(BY_KEY["table1"], [TrialResult(trial, seeds)], miniature=False)
    assert table[0] == "|  | seeds | ACC (%) | paper |"
    assert table[2] == "| row | 2 | 85.0 ± 7.1 | 79.9 |"
