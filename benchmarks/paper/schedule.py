"""Schedule of the runs: one after the other in this process, or one process per GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from benchmarks.paper.runs import Setup, TrialRun, is_finished, prepare_trial, train_run, write_task
from benchmarks.support import ROOT
from crlc.errors import CrlcError


def train_all(runs: Sequence[TrialRun], setup: Setup, gpus: Sequence[int] = ()) -> None:
    """Train the runs that are not finished.

    Args:
        runs: the runs of an experiment.
        setup: folders and devices.
        gpus: GPUs to use, one run each at a time; empty to train one run after the other on the device of the setup.

    Raises:
        CrlcError: the process of a run failed.
    """
    missing = list({run.compute_key(setup): run for run in runs if not is_finished(run, setup)}.values())
    if not gpus:
        for number, run in enumerate(missing, 1):
            _report(f"run {number} of {len(missing)}: {run.trial.label}, seed {run.seed}")
            if run.trial.isolated:
                _train_in_process(run, setup)
            else:
                train_run(run, setup)
        return
    _prepare_data(missing, setup)
    free: Queue[int] = Queue()
    for gpu in gpus:
        free.put(gpu)

    def train(run: TrialRun) -> None:
        gpu = free.get()
        try:
            _report(f"{run.trial.label}, seed {run.seed}, on GPU {gpu}")
            _train_in_process(run, setup, gpu)
        finally:
            free.put(gpu)

    with ThreadPoolExecutor(len(gpus)) as threads:
        for future in [threads.submit(train, run) for run in missing]:
            future.result()


def _prepare_data(runs: Sequence[TrialRun], setup: Setup) -> None:
    """Import and decode all data first: only one process may write to a dataset."""
    seen = set()
    for run in runs:
        key = (run.trial.dataset, run.trial.preset, run.trial.changes.get("image_size"))
        if key not in seen:
            prepare_trial(run, setup)
            seen.add(key)


def _train_in_process(run: TrialRun, setup: Setup, gpu: int | None = None) -> None:
    environment = dict(os.environ) | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": str(gpu)})
    with tempfile.TemporaryDirectory() as temporary:
        task = Path(temporary, "task.json")
        write_task(run, setup, task)
        command = [sys.executable, "-m", "benchmarks.paper.runs", str(task)]
        finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise CrlcError(f"{run.trial.label}, seed {run.seed} failed: {finished.stderr.strip()[-2000:]}")


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
