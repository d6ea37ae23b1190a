"""Results of the runs: metrics of every seed, means and deviations, and curves over the epochs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.paper.experiment import Experiment, Trial
from benchmarks.paper.runs import Setup, TrialRun, find_run, is_finished
from crlc.analysis.class_metrics import compute_accuracy
from crlc.runs.folder import RunFolder
from crlc.training.metric_names import CLASSIFICATION_ACCURACY

K_MEANS = "k_means_acc"
"""ACC of k-means on z, for comparison with the C-head."""

_CLUSTER_METRICS = ("acc", "nmi", "ari", "oracle_acc", "oracle_acc_any_epoch")
FRACTIONS = frozenset({*_CLUSTER_METRICS, "acc5", "error", K_MEANS})
"""Metrics from 0 to 1, which tables show in per cent."""

_UNITS = {"seconds": "s", "memory_mb": "MB"}
_NAMES = {
    "acc": "ACC",
    "acc5": "ACC5",
    "nmi": "NMI",
    "ari": "ARI",
    "error": "error",
    "k_means_acc": "ACC of k-means on z",
    "oracle_acc": "ACC of the best subhead (oracle)",
    "oracle_acc_any_epoch": "... at its best epoch (oracle)",
    "seconds": "time",
    "memory_mb": "peak memory",
}


def format_metric(metric: str) -> str:
    """Return the name of a metric with its unit."""
    return f"{_NAMES[metric]} ({'%' if metric in FRACTIONS else _UNITS[metric]})"


@dataclass(frozen=True)
class SeedResult:
    """One finished run."""

    seed: int
    run: RunFolder
    metrics: dict[str, float]
    epochs: tuple[dict[str, Any], ...]
    """Records of the epochs and of the end, from the metrics log."""

    def list_curves(self) -> dict[str, list[float | None]]:
        """Return the values of every metric over the records; `None` where a record lacks one."""
        names = {
            name: None
            for record in self.epochs
            for name, value in record.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        return {name: [record.get(name) for record in self.epochs] for name in names}

    def to_json(self) -> dict[str, Any]:
        """Return the content for the JSON file."""
        return {"seed": self.seed, "run": self.run.id, "metrics": self.metrics, "curves": self.list_curves()}


@dataclass(frozen=True)
class TrialResult:
    """The finished runs of a trial."""

    trial: Trial
    seeds: tuple[SeedResult, ...]
    failures: Mapping[int, str] = field(default_factory=dict)
    """Reason for every run that failed, by seed."""

    left_out: str = ""
    """Reason why the trial was not run, such as `no data`; empty if it was run."""

    def list_values(self, metric: str) -> list[float]:
        """Return the values of a metric, one per seed that has it."""
        return [seed.metrics[metric] for seed in self.seeds if seed.metrics.get(metric) is not None]

    def to_json(self) -> dict[str, Any]:
        """Return the content for the JSON file."""
        return {
            "label": self.trial.label,
            "dataset": self.trial.dataset,
            "preset": self.trial.preset,
            "variant": self.trial.variant,
            "changes": dict(self.trial.changes),
            "epochs_factor": self.trial.epochs_factor,
            "paper": dict(self.trial.paper),
            "left_out": self.left_out or None,
            "seeds": [seed.to_json() for seed in self.seeds],
            "failures": [{"seed": seed, "reason": reason} for seed, reason in self.failures.items()],
        }


def read_results(
    experiment: Experiment,
    seeds: Iterable[int],
    setup: Setup,
    failures: Mapping[str, str] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> list[TrialResult]:
    """Read the finished runs of an experiment.

    Args:
        experiment: the experiment.
        seeds: seeds of its runs.
        setup: folders and devices.
        failures: reasons of failed runs by key, as `train_all` returns them.
        left_out: what trials could not be run without, by their labels.
    """
    results = []
    for trial in experiment.trials:
        if left_out and trial.label in left_out:
            results.append(TrialResult(trial, (), left_out=left_out[trial.label]))
            continue
        runs = [TrialRun(trial, seed) for seed in seeds]
        with_k_means = K_MEANS in experiment.metrics
        finished = tuple(_read_seed(run, setup, with_k_means=with_k_means) for run in runs if is_finished(run, setup))
        keys = {run.seed: run.compute_key(setup) for run in runs}
        failed = {seed: failures[key] for seed, key in keys.items() if failures and key in failures}
        results.append(TrialResult(trial, finished, failed))
    return results


def summarize(values: Sequence[float], metric: str) -> str:
    """Return mean ± standard deviation, in per cent for metrics from 0 to 1; a dash without values."""
    if not values:
        return "-"
    scale = 100 if metric in FRACTIONS else 1
    mean = f"{scale * statistics.fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {scale * statistics.stdev(values):.1f}"


def read_error(record: dict[str, Any]) -> float | None:
    """Return the classification error of a record; `None` without labels or classes."""
    accuracy = record.get(CLASSIFICATION_ACCURACY)
    return None if accuracy is None else 1 - accuracy


def _read_seed(run: TrialRun, setup: Setup, *, with_k_means: bool) -> SeedResult:
    found = find_run(run, setup)
    assert found is not None
    records = list(found.metrics_log.read())
    end = records[-1]
    metrics = {name: value for name, value in end.items() if isinstance(value, (int, float))}
    metrics |= {name: end["timing"][name] for name in ("seconds", "memory_mb")}
    error = read_error(end)
    if error is not None:
        metrics["error"] = error
    if run.trial.changes.get("clustering_weight") == 0:  # the C-head is untrained: its clusters mean nothing
        metrics = {name: value for name, value in metrics.items() if name not in _CLUSTER_METRICS}
    if with_k_means:
        metrics[K_MEANS] = _score_k_means(found, run.seed, setup)
    curves = tuple(record for record in records if record["kind"] in ("epoch", "end"))
    return SeedResult(run.seed, found, metrics, curves)


def _score_k_means(run: RunFolder, seed: int, setup: Setup) -> float:
    """Return the ACC of k-means on z."""
    from sklearn.cluster import KMeans

    arrays, settings = run.open_result()[0], run.read_metadata()["settings"]
    dataset = setup.workspace.open_dataset(run.read_metadata()["dataset"])
    classes = dataset.read_metadata(np.asarray(arrays["ids"])).class_numbers
    assert classes is not None
    found = KMeans(settings["clusters"], n_init=10, random_state=seed).fit_predict(np.asarray(arrays["z"]))
    return compute_accuracy(found.astype(np.int64), classes)
