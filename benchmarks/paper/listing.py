"""List of the experiments: their data, which of their runs are finished, and the time of the others here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.paper.data import DATASETS, find_source
from benchmarks.paper.experiment import Experiment
from benchmarks.paper.runs import Setup, TrialRun, is_finished
from benchmarks.paper.step_timer import StepTimer
from crlc.formatting import format_duration
from crlc.training.device import choose_device
from crlc.training.paper_presets import PRESETS_WITH_WEIGHTS

_DAY_SECONDS = 86_400
_MIN_DAYS = 3
"""Shorter times are shown in hours."""


def list_missing_data(experiment: Experiment, setup: Setup) -> list[str]:
    """Return what an experiment needs that is neither built in nor given."""
    datasets = dict.fromkeys(trial.dataset for trial in experiment.trials)
    missing = [f"{name} ({DATASETS[name].kind})" for name in datasets if find_source(name, setup.locations) is None]
    needs_weights = any(trial.preset in PRESETS_WITH_WEIGHTS for trial in experiment.trials)
    return [*missing, *(["MoCo weights of ResNet-50"] if needs_weights and not setup.weights else [])]


def describe_experiments(
    experiments: Sequence[Experiment], seeds: Sequence[int], setup: Setup, timer: StepTimer | None = None
) -> Iterator[str]:
    """Yield one paragraph per experiment. Nothing is downloaded or imported.

    Args:
        experiments: the experiments.
        seeds: seeds of their runs.
        setup: folders and devices.
        timer: times the steps; by default on the device of the setup, once for runs with equal steps.
    """
    timer = timer or StepTimer(choose_device(setup.device))
    for experiment in experiments:
        every = [TrialRun(trial, seed) for trial in experiment.trials for seed in seeds[: experiment.max_seeds]]
        runs = list({run.compute_key(setup): run for run in every}.values())
        left = [run for run in runs if not is_finished(run, setup)]
        datasets = ", ".join(dict.fromkeys(trial.dataset for trial in experiment.trials)) or "no data"
        missing = list_missing_data(experiment, setup)
        lines = [f"{experiment.key}: {experiment.title}", f"  data: {datasets}"]
        if missing:
            lines.append(f"  missing: {', '.join(missing)}")
        lines.append(f"  runs: {len(runs)}, of which {len(runs) - len(left)} are finished")
        lines.append(f"  time: {_format_time(left, timer, setup)}")
        yield "\n".join(lines)


def _format_time(runs: Sequence[TrialRun], timer: StepTimer, setup: Setup) -> str:
    """Return the time of the runs, and of those that have data, on this computer."""
    if not runs:
        return "nothing left to train"
    times = [timer.estimate(run, setup) for run in runs]
    seconds = [time.seconds for time in times]
    available = [time.seconds for time, run in zip(times, runs, strict=True) if _has_data(run, setup)]
    text = f"about {_format_days(sum(seconds))} on this {timer.device.type}, one run at a time"
    if any(time.is_extrapolated for time in times):
        text += " (an estimate from smaller batches)"
    if len(available) == len(runs):
        return text
    if not available:
        return f"{text}; none of the {len(runs)} runs has its data"
    part = f"about {_format_days(sum(available))} for {len(available)} of {len(runs)} runs"
    return f"{text}; {part}, whose data are given or can be downloaded"


def _format_days(seconds: float) -> str:
    days = seconds / _DAY_SECONDS
    return format_duration(seconds) if days < _MIN_DAYS else f"{days:,.0f} days"


def _has_data(run: TrialRun, setup: Setup) -> bool:
    has_weights = run.trial.preset not in PRESETS_WITH_WEIGHTS or bool(setup.weights)
    return has_weights and find_source(run.trial.dataset, setup.locations) is not None
