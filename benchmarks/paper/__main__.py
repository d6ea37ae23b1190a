"""Reproduce a table or figure of the paper: `python -m benchmarks.paper table1`, `... fig3 a10-2 --miniature`.

Trains the runs that are missing, and writes a Markdown table with the paper's numbers, figures as PNG, and every number
as JSON to the folder `results` of --out. A command that was stopped continues with what is missing. A run that fails
does not stop the others: its cell says so, and the exit code is 1. Rows without data or weights say `left out`.
`--list` shows what each experiment needs and how long it takes here. docs/paper.md maps tables and figures to these
commands.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.paper.catalogue import EXPERIMENTS
from benchmarks.paper.data import DATASETS, DataLocations, find_source
from benchmarks.paper.experiment import Experiment
from benchmarks.paper.listing import describe_experiments
from benchmarks.paper.miniature import (
    select_datasets,
    select_paper_trials,
    select_trials,
    shorten_experiment,
    shrink_experiment,
)
from benchmarks.paper.report import Report, write_report
from benchmarks.paper.results import read_results
from benchmarks.paper.runs import Setup, TrialRun
from benchmarks.paper.schedule import train_all
from benchmarks.support import create_parser
from crlc.errors import CrlcError
from crlc.training.paper_presets import PRESETS_WITH_WEIGHTS

_WITHOUT_DATA = frozenset(experiment.key for experiment in EXPERIMENTS if not experiment.trials)
"""Experiments that have no runs."""


def main() -> int:
    """Run the command line."""
    options = _parse_options()
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # for runs in processes of their own
    setup = Setup(
        options.out.absolute(), DataLocations(options.imagenet, options.data, options.images), options.weights,
        options.device,
    )  # fmt: skip
    requested = options.experiments or [experiment.key for experiment in EXPERIMENTS]
    experiments = [_adapt(experiment, options) for experiment in EXPERIMENTS if experiment.key in requested]
    if options.list:
        for text in describe_experiments(experiments, options.seeds, setup):
            print(text, flush=True)
        return 0
    gpus = options.gpus
    if gpus is None:
        gpus = list(range(torch.cuda.device_count())) if options.device in ("auto", "cuda") else []
    command = f"python -m benchmarks.paper {' '.join(sys.argv[1:])}"
    failures = 0
    for experiment in experiments:
        try:
            report = run_experiment(experiment, options.seeds, setup, command, gpus, miniature=options.miniature)
        except CrlcError as error:
            print(f"error: {experiment.key}: {error}", file=sys.stderr)
            failures += 1
            continue
        if report is not None:
            print(report.file.read_text())
            failures += len(report.failures)
    if failures:
        print("error: some runs failed. The same command tries them again.", file=sys.stderr)
    return 1 if failures else 0


def run_experiment(
    experiment: Experiment,
    seeds: Sequence[int],
    setup: Setup,
    command: str,
    gpus: Sequence[int] = (),
    *,
    miniature: bool,
) -> Report | None:
    """Train the missing runs of an experiment, and write its report; `None` if none of its trials can be run.

    Trials without data or weights are left out, and the report says so. Runs that fail do not stop the others.

    Raises:
        CrlcError: a GPU is not visible, or the result of a run cannot be read.
    """
    left_out = {}
    for trial in experiment.trials:
        if find_source(trial.dataset, setup.locations) is None:
            print(f"{trial.label}: left out, because {trial.dataset} is missing (--data, --imagenet)", file=sys.stderr)
            left_out[trial.label] = "no data"
        elif trial.preset in PRESETS_WITH_WEIGHTS and not setup.weights:
            print(f"{trial.label}: left out, because it needs MoCo weights (--weights)", file=sys.stderr)
            left_out[trial.label] = "no weights"
    possible = [trial for trial in experiment.trials if trial.label not in left_out]
    if not possible and experiment.key not in _WITHOUT_DATA:
        print(f"{experiment.key}: nothing can be run for these datasets and trials", file=sys.stderr)
        return None
    seeds = seeds[: experiment.max_seeds]
    failures = train_all([TrialRun(trial, seed) for seed in seeds for trial in possible], setup, gpus)
    results = read_results(experiment, seeds, setup, failures, left_out)
    return write_report(experiment, results, setup, command, miniature=miniature)


def _adapt(experiment: Experiment, options: argparse.Namespace) -> Experiment:
    experiment = shrink_experiment(experiment) if options.miniature else select_paper_trials(experiment)
    if options.datasets:
        experiment = select_datasets(experiment, options.datasets)
    if options.trials:
        experiment = select_trials(experiment, options.trials)
    return experiment if options.epochs is None else shorten_experiment(experiment, options.epochs)


def _parse_options() -> argparse.Namespace:
    parser = create_parser(__doc__)
    keys = [experiment.key for experiment in EXPERIMENTS]
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=", ".join(keys))
    parser.add_argument("--list", action="store_true", help="show what each experiment needs, without training")
    parser.add_argument("--miniature", action="store_true", help="small data and a small network")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--datasets", nargs="+", choices=sorted(DATASETS), metavar="NAME", help="only trials on these datasets"
    )
    parser.add_argument("--trials", metavar="TEXT", help="only trials whose label contains TEXT")
    parser.add_argument("--out", type=Path, default=Path("paper-runs"), help="folder of workspace and results")
    parser.add_argument("--data", type=Path, help="folder with fashion_10k.npz and cifar10_5k, for miniatures")
    parser.add_argument("--imagenet", type=Path, help="folder with the training images of ImageNet")
    parser.add_argument("--weights", default="", help="ResNet-50 that MoCo trained on ImageNet")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    parser.add_argument("--gpus", type=int, nargs="*", help="GPUs to use, one run each (default: all)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--epochs", type=int, help="fixed number of epochs, to try an experiment out")
    parser.add_argument("--images", type=int, help="maximum number of images, to try an experiment out")
    options = parser.parse_args()
    unknown = [key for key in options.experiments if key not in keys]
    if unknown:
        parser.error(f"experiment {unknown[0]!r} is not known: it must be one of {', '.join(keys)}")
    if not options.list and not options.experiments:
        parser.error("name an experiment, or use --list")
    return options


if __name__ == "__main__":
    sys.exit(main())
