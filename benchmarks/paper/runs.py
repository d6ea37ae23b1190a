"""Runs of the experiments: each is an ordinary run in a workspace, found again by its key.

A killed sweep therefore continues with what is missing: finished runs are read, interrupted ones are resumed. A trial
that several experiments share is trained once. The app opens the workspace like any other.

`python -m benchmarks.paper.runs FILE` trains one run in a process of its own; `schedule` writes the file.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.paper.data import DataLocations, import_data
from benchmarks.paper.experiment import Trial
from crlc.errors import NotFoundError
from crlc.files import read_json, write_json
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.services.run_preparation import PreparedRun, RunRequest, TrainingEvents
from crlc.services.train import prepare_run, resume_run, start_run
from crlc.training.device import choose_device
from crlc.training.distributed import ComputeContext
from crlc.training.paper_presets import PAPER_PRESETS, PRESETS_WITH_WEIGHTS, build_paper_preset
from crlc.training.request import TrainRequest
from crlc.training.settings import TrainSettings
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

_KIND, _VERSION = "run of an experiment", 1


@dataclass(frozen=True)
class Setup:
    """Folders and devices that all runs share."""

    folder: Path
    """Receives the workspace, the list of runs, and the results."""

    locations: DataLocations = field(default_factory=DataLocations)
    weights: str = ""
    """File with the MoCo weights of the ImageNet subsets."""

    device: str = "auto"

    @property
    def workspace(self) -> Workspace:
        """The workspace of all runs."""
        return Workspace(self.folder / "workspace")


@dataclass(frozen=True)
class TrialRun:
    """A trial with one seed."""

    trial: Trial
    seed: int

    @property
    def changes(self) -> dict[str, Any]:
        """Settings that differ from the preset, with the length of the trial."""
        changes = dict(self.trial.changes)
        if self.trial.epochs_factor != 1:
            epochs = changes.get("epochs", PAPER_PRESETS[self.trial.preset].stages.epochs)
            changes["epochs"] = round(epochs * self.trial.epochs_factor)
        return changes

    def build_settings(self, setup: Setup) -> TrainSettings:
        """Return the settings of the run. A weights file that is needed and not given is called `missing`."""
        settings = build_paper_preset(self.trial.preset, self.trial.variant, setup.weights or "missing")
        return settings.replace(**self.changes, seed=self.seed)

    def compute_key(self, setup: Setup) -> str:
        """Return a short hash of everything that the result depends on; equal for equal runs of two experiments."""
        trial = self.trial
        content = {
            "settings": self.build_settings(setup).to_json(),
            "data": [trial.dataset, setup.locations.images, trial.split, trial.evaluate_split, trial.labels],
            "isolated": trial.isolated,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def build_request(self, setup: Setup) -> RunRequest:
        """Return the request for the run; its dataset is imported if necessary."""
        trial, changes = self.trial, self.changes
        clusters = changes.pop("clusters", None)
        training = TrainRequest(
            trial.preset,
            weights=setup.weights if trial.preset in PRESETS_WITH_WEIGHTS else "",
            values={"seed": self.seed},
            assignments=tuple(f"{name}={value}" for name, value in changes.items()),
            variant=trial.variant,
        )
        return RunRequest(
            import_data(setup.workspace, trial.dataset, setup.locations),
            training,
            clusters,
            trial.split,
            trial.evaluate_split,
            labels=trial.labels,
        )


class _TrialEntries(TypedDict):
    run: str


def find_run(run: TrialRun, setup: Setup) -> RunFolder | None:
    """Return the run of a trial and seed, in whatever state; `None` if it was never started or has been removed."""
    file = _get_run_file(run, setup)
    if not file.exists():
        return None
    try:
        return RunStore(setup.workspace).open(
            read_json(file, _KIND, _VERSION, "Delete the file.", _TrialEntries)["run"]
        )
    except NotFoundError:
        return None


def is_finished(run: TrialRun, setup: Setup) -> bool:
    """Return whether the run of a trial and seed is finished."""
    found = find_run(run, setup)
    return found is not None and found.read_status().state is RunState.FINISHED


def prepare_trial(run: TrialRun, setup: Setup) -> PreparedRun:
    """Import and decode the data of a run, and return its settings and images."""
    return prepare_run(setup.workspace, run.build_request(setup), ComputeContext(choose_device(setup.device)))


def train_run(run: TrialRun, setup: Setup) -> None:
    """Train a run to its end: nothing if it is finished, the rest if it was interrupted."""
    if is_finished(run, setup):
        return
    compute, found = ComputeContext(choose_device(setup.device)), find_run(run, setup)
    if found is not None:
        resume_run(setup.workspace, found.id, compute)
        return

    def remember(created: RunFolder) -> None:
        file = _get_run_file(run, setup)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {"kind": _KIND, "version": _VERSION, "run": created.id, "trial": asdict(run.trial)})

    start_run(setup.workspace, prepare_trial(run, setup), compute, TrainingEvents(created=remember))


def write_task(run: TrialRun, setup: Setup, file: Path) -> None:
    """Write what a process of its own needs to train a run."""
    locations = {
        name: str(value) if isinstance(value, Path) else value for name, value in vars(setup.locations).items()
    }
    content = {
        "trial": asdict(run.trial),
        "seed": run.seed,
        "setup": {**vars(setup), "folder": str(setup.folder), "locations": locations},
    }
    file.write_text(json.dumps(content))


def read_task(file: Path) -> tuple[TrialRun, Setup]:
    """Read what `write_task` wrote."""
    content: dict[str, Any] = json.loads(file.read_text())
    locations = content["setup"].pop("locations")
    folders = {name: None if locations[name] is None else Path(locations[name]) for name in ("imagenet", "files")}
    setup = Setup(
        **{**content["setup"], "folder": Path(content["setup"]["folder"])},
        locations=DataLocations(**folders, images=locations["images"]),
    )
    return TrialRun(Trial(**content["trial"]), content["seed"]), setup


def _get_run_file(run: TrialRun, setup: Setup) -> Path:
    return setup.folder / "runs" / f"{run.compute_key(setup)}.json"


if __name__ == "__main__":
    train_run(*read_task(Path(sys.argv[1])))
