"""Adapted experiments: miniatures in minutes on a laptop, and selections of trials.

Miniatures are the same experiments on small data, with a small network.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.paper.data import DATASETS, SPLIT
from benchmarks.paper.experiment import Experiment, Trial

_CLASSES = 10
_COMMON: dict[str, Any] = {
    "clusters": _CLASSES,
    "backbone": "small",
    "stem": "auto",
    "optimizer": "adamw",
    "learning_rate": 3e-3,
    "feature_weight": 1.0,
    "clusterable_fraction": 0.0,
    "view_source": "stored",
}
_BY_DATASET: Mapping[str, dict[str, Any]] = {
    "digits": {"image_size": 16, "augment": "glyph", "batch_size": 128, "epochs": 60},
    "fashion_10k": {"image_size": 16, "augment": "glyph", "batch_size": 256, "epochs": 10},
    "cifar10_5k": {"image_size": 32, "augment": "photo", "batch_size": 128, "epochs": 20},
}


def shrink_experiment(experiment: Experiment) -> Experiment:
    """Return the miniature of an experiment: other data and settings; the paper's numbers stay.

    It has splits only if its dataset has.
    """
    trials = [
        _shrink_trial(trial, experiment.miniature[trial.dataset])
        for trial in experiment.trials
        if trial.dataset in experiment.miniature
    ]
    return replace(experiment, trials=tuple(trials))


def select_paper_trials(experiment: Experiment) -> Experiment:
    """Return an experiment on the paper's data, without the trials that only its miniature has."""
    return replace(experiment, trials=tuple(trial for trial in experiment.trials if not trial.miniature_only))


def select_datasets(experiment: Experiment, datasets: Collection[str]) -> Experiment:
    """Return an experiment without the trials on other datasets."""
    return replace(experiment, trials=tuple(trial for trial in experiment.trials if trial.dataset in datasets))


def select_trials(experiment: Experiment, text: str) -> Experiment:
    """Return an experiment with only the trials whose label contains a text."""
    return replace(experiment, trials=tuple(trial for trial in experiment.trials if text in trial.label))


def _shrink_trial(trial: Trial, dataset: str) -> Trial:
    has_splits = DATASETS[dataset].kind == SPLIT
    changes = {**_COMMON, **_BY_DATASET[DATASETS[dataset].name if has_splits else dataset]}
    if trial.preset.startswith("paper-two-stage"):
        changes |= _shrink_two_stage(changes["epochs"])
    if trial.variant == "c-head-only":
        del changes["feature_weight"]
    changes |= trial.changes
    label = trial.label.replace(trial.dataset, dataset)
    if trial.labels is not None:
        label = f"{_CLASSES * int(trial.labels.removeprefix('classes:'))} labels"
    trial = trial if has_splits else replace(trial, split=None, evaluate_split=None)
    return replace(trial, label=label, dataset=dataset, changes=changes)


def _shrink_two_stage(epochs: int) -> dict[str, Any]:
    """Return settings of two stages that together have as many epochs; neighbours as fewer images need them."""
    return {
        "pretrain_epochs": max(1, 2 * epochs // 3),
        "pretrain_optimizer": "adamw",
        "pretrain_learning_rate": 3e-3,
        "epochs": max(1, epochs // 3),
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "schedule": "cosine",
        "neighbours": 20,
        "feature_weight": 0.0,
    }


def shorten_experiment(experiment: Experiment, epochs: int) -> Experiment:
    """Return an experiment with a fixed number of epochs in every stage, to try it out; factors of the epochs count."""

    def shorten(trial: Trial) -> Trial:
        short: dict[str, Any] = {"epochs": epochs}
        if trial.preset.startswith("paper-two-stage"):
            short["pretrain_epochs"] = epochs
        return replace(trial, changes={**trial.changes, **short})

    return replace(experiment, trials=tuple(shorten(trial) for trial in experiment.trials))
