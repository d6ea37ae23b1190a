"""List of the experiments: their data, which of their runs are finished, and the time of the others here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.paper.data import DATASETS, find_source
from benchmarks.paper.experiment import Experiment
from benchmarks.paper.runs import Setup, TrialRun, is_finished, prepare_trial
from crlc.errors import CrlcError
from crlc.formatting import format_duration
from crlc.training.device import choose_device
from crlc.training.paper_presets import PRESETS_WITH_WEIGHTS
from crlc.training.time_estimate import RunTimer


def list_missing_data(experiment: Experiment, setup: Setup) -> list[str]:
    """Return what an experiment needs that is neither built in nor given."""
    datasets = dict.fromkeys(trial.dataset for trial in experiment.trials)
    missing = [f"{name} ({DATASETS[name].kind})" for name in datasets if find_source(name, setup.locations) is None]
    needs_weights = any(trial.preset in PRESETS_WITH_WEIGHTS for trial in experiment.trials)
    return [*missing, *(["MoCo weights of ResNet-50"] if needs_weights and not setup.weights else [])]


def describe_experiments(
    experiments: Sequence[Experiment], seeds: Sequence[int], setup: Setup, *, miniature: bool
) -> Iterator[str]:
    """Yield one paragraph per experiment. Steps are timed on this computer, once for runs with equal steps."""
    timer = RunTimer(choose_device(setup.device))
    for experiment in experiments:
        every = [TrialRun(trial, seed) for trial in experiment.trials for seed in seeds]
        runs = list({run.compute_key(setup): run for run in every}.values())
        left = [run for run in runs if not is_finished(run, setup)]
        datasets = ", ".join(dict.fromkeys(trial.dataset for trial in experiment.trials)) or "no data"
        missing = list_missing_data(experiment, setup)
        lines = [f"{experiment.key}: {experiment.title}", f"  data: {datasets}"]
        if missing:
            lines.append(f"  missing: {', '.join(missing)}")
        lines.append(f"  runs: {len(runs)}, of which {len(runs) - len(left)} are finished")
        lines.append(f"  time: {_estimate(left, timer, setup, miniature=miniature)}")
        yield "\n".join(lines)


def _estimate(runs: Sequence[TrialRun], timer: RunTimer, setup: Setup, *, miniature: bool) -> str:
    available = [run for run in runs if find_source(run.trial.dataset, setup.locations) is not None]
    if not runs:
        return "nothing left to train"
    if not available:
        return "not known without the data"
    if not miniature and timer.device.type == "cpu":
        return "not estimated without a GPU: one step of the paper's networks takes a minute on a CPU"
    seconds = 0.0
    for run in available:
        try:
            prepared = prepare_trial(run, setup)
        except CrlcError as error:
            return f"not known: {error}"
        seconds += timer.estimate(prepared.images, prepared.settings).total.expected
    return f"about {format_duration(seconds)} on this {timer.device.type}, one run at a time"
