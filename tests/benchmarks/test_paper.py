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

from benchmarks.paper import schedule
from benchmarks.paper.__main__ import main, run_experiment
from benchmarks.paper.catalogue import EXPERIMENTS
from benchmarks.paper.data import DATASETS, IMAGENET, DataLocations, count_images, find_source
from benchmarks.paper.experiment import Experiment, Trial
from benchmarks.paper.figures import FIGURES
from benchmarks.paper.miniature import (
    select_datasets,
    select_paper_trials,
    select_trials,
    shorten_experiment,
    shrink_experiment,
)
from benchmarks.paper.pictures import find_strips
from benchmarks.paper.report import build_table
from benchmarks.paper.results import SeedResult, TrialResult, read_results, summarize
from benchmarks.paper.runs import Setup, TrialRun, find_run, is_finished, prepare_trial, train_run, write_task
from benchmarks.paper.schedule import select_visible_gpu, train_all
from benchmarks.paper.split_folder import find_test_images
from benchmarks.support import ROOT
from crlc.data.classes import read_subset
from crlc.errors import CrlcError
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
    report = run_experiment(experiment, [0], setup, "command", miniature=True)
    assert report is not None
    assert not report.failures
    file = report.file
    has_data = [find_source(trial.dataset, setup.locations) is not None for trial in experiment.trials]
    text = file.read_text()
    for trial, is_trained in zip(experiment.trials, has_data, strict=True):
        assert f"| {trial.label} | {'1' if is_trained else '0 | left out: no data'} |" in text
    content = json.loads(file.with_suffix(".json").read_text())
    assert [trial["label"] for trial in content["trials"]] == [trial.label for trial in experiment.trials]
    assert [trial["left_out"] is None for trial in content["trials"]] == has_data
    trained = [trial for trial in content["trials"] if trial["left_out"] is None]
    assert all(trial["seeds"][0]["metrics"] for trial in trained)
    curves = [trial["seeds"][0]["curves"] for trial in trained]
    assert all(len(one["loss"]) == len(one["epoch"]) >= 2 for one in curves)  # an epoch and the end
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
@pytest.mark.parametrize("gpus", [[], [0]], ids=["this process", "one GPU"])
def test_failed_run_does_not_stop_the_others(setup: Setup, gpus: list[int], capsys: pytest.CaptureFixture[str]):
    good = replace(shrink(BY_KEY["fig3"]).trials[0], label="good")
    bad = replace(good, label="bad", changes={**good.changes, "clusters": 1_000})  # more clusters than images
    experiment = replace(BY_KEY["fig3"], trials=(bad, good))
    seeds = [20 + len(gpus)]
    for _ in range(2):  # the second time, the first trial fails again and the other one is finished
        report = run_experiment(experiment, seeds, setup, "command", gpus, miniature=True)
        assert report is not None
        assert len(report.failures) == 1
        assert report.failures[0].startswith(f"bad, seed {seeds[0]} failed: ")
        text = report.file.read_text()
        assert "| bad | 0, 1 failed | failed | not recorded |" in text
        assert "| good | 1 |" in text
        assert report.failures[0] in text
        failed, _ = json.loads(report.file.with_suffix(".json").read_text())["trials"]
        assert "clusters=1000" in failed["failures"][0]["reason"]
    assert capsys.readouterr().err.count("good, seed") == 1
    with_bad_runs_only = run_experiment(replace(experiment, trials=(bad,)), seeds, setup, "command", miniature=True)
    assert with_bad_runs_only is not None  # without a figure, which would need a run
    assert "![" not in with_bad_runs_only.file.read_text()


@pytest.mark.parametrize("key", ["fig2", "fig4", "a11"])
def test_experiment_without_trials_is_left_out(setup: Setup, key: str, capsys: pytest.CaptureFixture[str]):
    experiment = select_datasets(shrink(BY_KEY[key]), ["cifar10_5k"])
    assert run_experiment(experiment, [0], setup, "command", miniature=True) is None
    assert f"{key}: nothing can be run" in capsys.readouterr().err


def test_trials_without_data_or_weights_stay_in_the_report(
    tmp_path: Path, setup: Setup, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "imagenet").mkdir()
    monkeypatch.setattr("benchmarks.paper.__main__.train_all", lambda *_: {})
    for imagenet, reason in ((None, "no data"), (tmp_path / "imagenet", "no weights")):
        locations = replace(setup.locations, imagenet=imagenet)
        report = run_experiment(BY_KEY["table2"], [0], Setup(tmp_path / reason, locations), "command", miniature=False)
        assert report is not None
        assert not report.failures
        assert f"| imagenet200 | 0 | left out: {reason} | 57.9 |" in report.file.read_text()
        trials = {trial["label"]: trial for trial in json.loads(report.file.with_suffix(".json").read_text())["trials"]}
        assert (trials["imagenet50"]["left_out"], trials["imagenet50"]["seeds"]) == (reason, [])
        assert trials["cifar10"]["left_out"] is None


def test_unexpected_error_of_a_run_does_not_stop_the_others(setup: Setup, monkeypatch: pytest.MonkeyPatch):
    runs = [TrialRun(shrink(BY_KEY["fig2"]).trials[0], seed) for seed in (91, 92, 93)]
    tried = []

    def train(run: TrialRun, _: Setup) -> None:
        tried.append(run.seed)
        if run.seed == 91:
            raise RuntimeError("no kernel image")

    monkeypatch.setattr(schedule, "train_run", train)
    assert train_all(runs, setup) == {runs[0].compute_key(setup): "RuntimeError: no kernel image"}
    assert tried == [91, 92, 93]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule, "train_run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train_all(runs, setup)


def test_command_line_reports_failures_by_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    arguments = ["--miniature", "--out", str(tmp_path), "--epochs", "1", "--images", "60", "--seeds", "0"]
    arguments += ["--device", "cpu", "--threads", "1", "--trials", "SGD, λ2 = 0"]
    failing: list[str] = []

    def train(run: TrialRun, _: Setup) -> None:
        failing.append(run.trial.label)
        raise CrlcError("no")

    monkeypatch.setattr(schedule, "train_run", train)
    monkeypatch.setattr(sys, "argv", ["paper", "fig3", "fig4", *arguments])
    assert main() == 1
    assert failing == ["SGD, λ2 = 0.0"]
    captured = capsys.readouterr()
    assert "SGD, λ2 = 0.0, seed 0 failed: no" in captured.out
    assert "fig4: nothing can be run" in captured.err
    monkeypatch.setattr(sys, "argv", ["paper", "a2", *arguments])
    assert main() == 0


@pytest.mark.parametrize(
    ("number", "visible", "expected"), [(1, None, "1"), (1, "4,6", "6"), (0, "GPU-a, GPU-b", "GPU-a")]
)
def test_select_visible_gpu_keeps_the_mask_of_the_batch_system(number: int, visible: str | None, expected: str):
    assert select_visible_gpu(number, visible) == expected


def test_select_visible_gpu_refuses_a_gpu_outside_the_mask():
    with pytest.raises(CrlcError, match="--gpus 2"):
        select_visible_gpu(2, "4,6")


@pytest.mark.slow
def test_runs_of_several_gpus_train_in_processes_of_their_own(setup: Setup, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    trial = shrink(BY_KEY["fig3"]).trials[1]
    runs = [TrialRun(trial, seed) for seed in (10, 11)]
    train_all(runs, setup, gpus=[0, 1])
    assert all(is_finished(run, setup) for run in runs)
    experiment = replace(BY_KEY["fig3"], trials=(trial,))
    (result,) = read_results(experiment, [10, 11, 12], setup)  # seed 12 was not trained
    assert [seed.seed for seed in result.seeds] == [10, 11]


@pytest.mark.slow
def test_every_imagenet_trial_can_be_prepared(tmp_path: Path):
    random = np.random.default_rng(0)
    subsets = ("imagenet10", "imagenet-dogs", "imagenet200")
    for name in sorted(set().union(*map(read_subset, subsets))):
        (tmp_path / "imagenet" / name).mkdir(parents=True)
        pixels = random.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "imagenet" / name / "image.png")
    setup = Setup(tmp_path / "out", DataLocations(imagenet=tmp_path / "imagenet"), "moco.pth", "cpu")
    trials = [trial for one in EXPERIMENTS for trial in one.trials if DATASETS[trial.dataset].kind == IMAGENET]
    assert {trial.dataset for trial in trials} == {name for name, one in DATASETS.items() if one.kind == IMAGENET}
    for trial in trials:
        prepared = prepare_trial(TrialRun(trial, 0), setup)
        assert len(prepared.images) == prepared.settings.model.clusters  # one image per class


@pytest.mark.slow
def test_miniature_of_table5_is_tested_on_other_images(setup: Setup):
    trial = shrink(BY_KEY["table5"]).trials[1]
    assert (trial.dataset, trial.split, trial.evaluate_split) == ("fashion_10k-split", "train", "test")
    prepared = prepare_trial(TrialRun(trial, 0), setup)
    tested = prepared.optional_inputs.evaluation_images
    assert tested is not None
    assert (len(prepared.images), len(tested)) == (50, 10)  # every fifth image of each class, rounded down
    assert not set(prepared.images.ids) & set(tested.ids)
    assert sorted(np.asarray(tested.classes)) == list(range(10))


def test_find_test_images_takes_every_fifth_of_each_class():
    assert find_test_images(np.array([0] * 6 + [1] * 4 + [0] * 4 + [1])).tolist() == [4, 13, 14]


def test_table5_trains_the_rl_head_on_the_unlabelled_images_of_stl10():
    trial = BY_KEY["table5"].trials[2]
    assert (trial.dataset, trial.split, trial.evaluate_split) == ("stl10", "train+unlabelled", "test")
    assert count_images("stl10", trial.split, DataLocations()) == (5_000, 100_000)
    assert count_images("stl10", None, DataLocations()) == (13_000, 100_000)
    assert count_images("cifar10", "train", DataLocations(images=6_000)) == (5_000, 0)


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
    assert [TrialRun(trial, 0).changes["epochs"] for trial in (simclr, bank, equal_views)] == [60, 60, 120]
    for experiment in (shrink_experiment(BY_KEY["fig4"]), BY_KEY["fig4"]):  # also with a fixed number of epochs
        short = shorten_experiment(experiment, 2).trials
        assert [TrialRun(trial, 0).changes["epochs"] for trial in short] == [2, 2, 4, 2]
    sgd = [trial for trial in shrink_experiment(BY_KEY["fig3"]).trials if trial.group == "SGD"]
    assert [trial.changes["feature_weight"] for trial in sgd] == [0.0, 1.0, 3.0, 10.0, 20.0]
    assert {trial.changes["optimizer"] for trial in sgd} == {"sgd"}


def test_select_datasets_keeps_only_their_trials():
    miniature = shrink_experiment(BY_KEY["table1"])
    chosen = select_datasets(miniature, ["fashion_10k"])
    assert [trial.label for trial in chosen.trials] == ["fashion_10k, CRLC", "fashion_10k, C-head only"]
    (only,) = select_trials(chosen, "C-head").trials
    assert only.label == "fashion_10k, C-head only"


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
    own = replace(trial, label="own", paper={}, is_in_paper=False)
    results = [TrialResult(replace(trial, paper={}), seeds), TrialResult(own, seeds)]
    table = build_table(BY_KEY["fig4"], results, miniature=False)
    assert table[2:] == ["| row | 2 | 85.0 ± 7.1 | not recorded |", "| own | 2 | 85.0 ± 7.1 | - |"]
    for key in ("table5", "fig3", "fig4", "a10-1", "a10-2"):
        assert "| paper |" in build_table(BY_KEY[key], results, miniature=False)[0]


def test_bars_of_fig4_have_a_panel_for_accuracy_time_and_memory(tmp_path: Path):
    metrics = {"acc": 0.8, "seconds": 9.0, "memory_mb": 300.0}
    with_acc = SeedResult(0, RunFolder(tmp_path), metrics, ())
    without = replace(with_acc, metrics={"seconds": 9.0, "memory_mb": 300.0})
    trials = BY_KEY["fig4"].trials
    results = [TrialResult(trials[0], (with_acc,)), TrialResult(trials[3], (without,))]
    figure = FIGURES["bars"](BY_KEY["fig4"], results)
    assert [panel.get_xlabel() for panel in figure.axes] == ["ACC (%)", "time (s)", "peak memory (MB)"]
    assert [len(panel.patches) for panel in figure.axes] == [1, 2, 2]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["SimCLR form", "RL-head alone"]


def test_bars_say_that_the_numbers_of_the_paper_are_for_its_data(tmp_path: Path):
    seed = SeedResult(0, RunFolder(tmp_path), {"acc": 0.8}, ())
    (trial, *_) = shrink_experiment(BY_KEY["table1"]).trials
    (panel,) = FIGURES["bars"](BY_KEY["table1"], [TrialResult(trial, (seed,))]).axes
    assert panel.get_xlabel() == "ACC (%), bar: ours, diamond: the paper, on its data"


def test_curves_have_a_value_or_none_per_record(tmp_path: Path):
    records = ({"kind": "epoch", "epoch": 1, "loss": 2.0}, {"kind": "end", "epoch": 2, "loss": 1.0, "acc": 0.5})
    curves = SeedResult(0, RunFolder(tmp_path), {}, records).list_curves()
    assert curves == {"epoch": [1, 2], "loss": [2.0, 1.0], "acc": [None, 0.5]}
