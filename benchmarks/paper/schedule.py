"""Schedule of the runs: one after the other in this process, or one process per GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import Queue

from benchmarks.paper.runs import Setup, TrialRun, is_finished, prepare_trial, train_run, write_task
from benchmarks.support import ROOT
from crlc.errors import CrlcError

_MAX_ERROR_CHARACTERS = 2_000


def train_all(runs: Sequence[TrialRun], setup: Setup, gpus: Sequence[int] = ()) -> dict[str, str]:
    """Train the runs that are not finished. A run that fails does not stop the others.

    Args:
        runs: the runs of an experiment.
        setup: folders and devices.
        gpus: GPUs to use, one run each at a time; empty to train one run after the other on the device of the setup.

    Returns:
        The reason for every run that failed, by the key of the run.

    Raises:
        CrlcError: a GPU is not visible.
    """
    missing = {run.compute_key(setup): run for run in runs if not is_finished(run, setup)}
    if gpus:
        return _train_on_gpus(missing, setup, gpus)
    failures = {}
    for number, (key, run) in enumerate(missing.items(), 1):
        _report(f"run {number} of {len(missing)}: {run.trial.label}, seed {run.seed}")
        train = _train_in_process if run.trial.isolated else train_run
        reason = _catch(partial(train, run, setup))
        if reason is not None:
            failures[key] = reason
    return failures


def select_visible_gpu(number: int, visible: str | None) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES for a process that uses one of the visible GPUs.

    Args:
        number: index among the visible GPUs.
        visible: CUDA_VISIBLE_DEVICES of this process, as a batch system sets it; `None` if all GPUs are visible.

    Raises:
        CrlcError: fewer GPUs are visible.
    """
    if visible is None:
        return str(number)
    names = [name.strip() for name in visible.split(",") if name.strip()]
    if not 0 <= number < len(names):
        raise CrlcError(f"--gpus {number} is not allowed: CUDA_VISIBLE_DEVICES={visible} has {len(names)} GPUs.")
    return names[number]


def _train_on_gpus(missing: Mapping[str, TrialRun], setup: Setup, gpus: Sequence[int]) -> dict[str, str]:
    free: Queue[str] = Queue()
    for gpu in gpus:
        free.put(select_visible_gpu(gpu, os.environ.get("CUDA_VISIBLE_DEVICES")))
    failures = _prepare_data(missing, setup)

    def train(run: TrialRun) -> str | None:
        gpu = free.get()
        try:
            _report(f"{run.trial.label}, seed {run.seed}, on GPU {gpu}")
            return _catch(partial(_train_in_process, run, setup, gpu))
        finally:
            free.put(gpu)

    with ThreadPoolExecutor(len(gpus)) as threads:
        started = {key: threads.submit(train, run) for key, run in missing.items() if key not in failures}
    found = {key: future.result() for key, future in started.items()}
    return failures | {key: reason for key, reason in found.items() if reason is not None}


def _prepare_data(runs: Mapping[str, TrialRun], setup: Setup) -> dict[str, str]:
    """Import and decode all data first: only one process may write to a dataset. Return the reasons of failures."""
    reasons: dict[tuple[object, ...], str | None] = {}
    failures = {}
    for key, run in runs.items():
        data = (run.trial.dataset, run.trial.preset, run.trial.split, run.trial.changes.get("image_size"))
        if data not in reasons:
            reasons[data] = _catch(partial(prepare_trial, run, setup))
        if (reason := reasons[data]) is not None:
            failures[key] = reason
    return failures


def _catch(action: Callable[[], object]) -> str | None:
    """Run an action, and return its error as text, with the type if it is no `CrlcError`; `None` if it succeeds."""
    try:
        action()
    except CrlcError as error:
        _report(f"error: {error}")
        return str(error)
    except Exception as error:  # an unexpected error of one run must not stop the other runs either
        _report(traceback.format_exc())
        return f"{type(error).__name__}: {error}"
    return None


def _train_in_process(run: TrialRun, setup: Setup, gpu: str | None = None) -> None:
    environment = dict(os.environ) | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})
    with tempfile.TemporaryDirectory() as temporary:
        task = Path(temporary, "task.json")
        write_task(run, setup, task)
        command = [sys.executable, "-m", "benchmarks.paper.runs", str(task)]
        finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if finished.returncode:
        _report(finished.stderr.strip()[-_MAX_ERROR_CHARACTERS:])
        raise CrlcError((finished.stderr.strip().splitlines() or [f"exit code {finished.returncode}"])[-1])


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
