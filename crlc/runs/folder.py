"""Files of one run, through which trainer, CLI and app communicate.

run.json holds the metadata, status.json the state, metrics.jsonl the metrics log. result.json names the folder with the
newest result. JSON files are replaced as a whole, so that a reader never sees half of one.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import psutil
from numpy.typing import NDArray

from crlc.array_files import load_array
from crlc.errors import DamagedError, NotFoundError
from crlc.files import load_required_array, read_json, write_json
from crlc.runs.metrics_log import MetricsLog
from crlc.runs.state import PROCESS_GONE, RunState, RunStatus

_VERSION = 1
_ADVICE = "Delete the folder of the run if you do not need it."
_STATUS_ADVICE = "Delete it: the run then counts as interrupted, and can be resumed."
_RESULT_ADVICE = "Resume the run, or train again."
_NEVER_STARTED = "The run was interrupted before it started. It can be resumed."
_READ_ATTEMPTS = 10  # a result may be replaced while it is opened


class _RequiredRunEntries(TypedDict):
    dataset: str
    dataset_uid: str
    manifest_version: int
    settings: dict[str, Any]


class RunEntries(_RequiredRunEntries, total=False):
    """Schema of run.json; the values of the settings are checked by `TrainSettings`."""

    preset: str
    device: str
    created: str
    title: str | None
    parent: str | None
    group: str | None
    variant: str
    evaluate_split: str | None
    method_reason: str
    names: dict[str, str]
    cluster_count: dict[str, Any]
    versions: dict[str, str]


class _StatusEntries(TypedDict):
    state: RunState


class _RequiredResultEntries(TypedDict):
    folder: str
    arrays: list[str]


class _ResultEntries(_RequiredResultEntries, total=False):
    step: int
    epoch: int
    subhead: int
    images: int
    of: int
    final: bool


class RunFolder:
    """Access to the files of one run, for reading and writing."""

    def __init__(self, path: Path) -> None:
        """Store the path of the folder; nothing is read yet."""
        self.path = path

    @property
    def id(self) -> str:
        """Id of the run, which is the name of its folder."""
        return self.path.name

    @property
    def checkpoint_file(self) -> Path:
        """Path of the newest checkpoint, which may not exist yet."""
        return self.path / "checkpoints" / "last.pt"

    @property
    def metrics_log(self) -> MetricsLog:
        """Metrics of every epoch and of some steps."""
        return MetricsLog(self.path / "metrics.jsonl")

    # ---- metadata and images

    def write_metadata(self, content: dict[str, Any]) -> None:
        """Write run.json, with settings, dataset and versions. The folder is a run only once this file exists."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "run.json", {"kind": "run", "version": _VERSION, **content})

    def read_metadata(self) -> dict[str, Any]:
        """Read run.json.

        Raises:
            DamagedError: the file cannot be read.
        """
        return read_json(self.path / "run.json", "run", _VERSION, _ADVICE, RunEntries)

    def write_ids(self, ids: NDArray[np.int64]) -> None:
        """Write the ids of the training images."""
        np.save(self.path / "ids.npy", ids, allow_pickle=False)

    def read_ids(self) -> NDArray[np.int64]:
        """Read the ids of the training images.

        Raises:
            DamagedError: the file is missing or damaged.
            AccessError: the user has no permission to read it.
        """
        ids: NDArray[np.int64] = load_required_array(self.path / "ids.npy", _ADVICE)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise DamagedError(f"{self.path / 'ids.npy'} does not contain image ids.", advice=_ADVICE)
        return ids

    # ---- state

    def write_status(self, state: RunState, **entries: Any) -> None:
        """Write status.json and record the calling process as the one that works on the run.

        Args:
            state: the new state.
            entries: further fields of `RunStatus`.
        """
        process = psutil.Process()
        content = {
            "state": state,
            "pid": process.pid,
            "process_started": process.create_time(),
            "heartbeat": time.time(),
            **entries,
        }
        write_json(self.path / "status.json", {"kind": "status", "version": _VERSION, **content})

    def read_status(self) -> RunStatus:
        """Read status.json. An active run whose process no longer exists is returned as interrupted.

        Raises:
            DamagedError: the file cannot be read.
        """
        file = self.path / "status.json"
        if not file.exists():
            return RunStatus(RunState.INTERRUPTED, message=_NEVER_STARTED)
        content = read_json(file, "status", _VERSION, _STATUS_ADVICE, _StatusEntries)
        try:
            status = RunStatus.from_json(content)
        except ValueError as error:
            raise DamagedError(f"{file} is damaged: it {error}.", advice=_STATUS_ADVICE) from None
        if status.state.is_active and not status.process.is_alive():
            return replace(status, state=RunState.INTERRUPTED, message=f"{PROCESS_GONE} The run can be resumed.")
        return status

    def request_stop(self) -> None:
        """Ask the training process to stop; it checks for a request after every step."""
        (self.path / "stop").touch()

    def is_stop_requested(self) -> bool:
        """Return whether a stop has been requested."""
        return (self.path / "stop").exists()

    def clear_stop_request(self) -> None:
        """Remove an earlier request to stop, before training starts or resumes."""
        (self.path / "stop").unlink(missing_ok=True)

    # ---- results

    @property
    def _result_file(self) -> Path:
        return self.path / "result.json"

    @property
    def _has_result(self) -> bool:
        return self._result_file.exists()

    @property
    def result_advice(self) -> str:
        """Advice about a damaged result; a finished run cannot be resumed."""
        with suppress(DamagedError):
            if self.read_status().state is RunState.FINISHED:
                return "Train again; the labels are kept."
        return _RESULT_ADVICE

    def _read_result_file(self) -> dict[str, Any]:
        content = read_json(self._result_file, "result", _VERSION, _RESULT_ADVICE, _ResultEntries)
        if not all(name and Path(name).name == name for name in (content["folder"], *content["arrays"])):
            raise DamagedError(
                f"{self._result_file} is damaged: it names a file outside the run.", advice=_RESULT_ADVICE
            )
        return content

    def create_result_folder(self, step: int, *, make: bool = True) -> Path:
        """Return the folder for the result after a step; readers ignore it until `publish_result`.

        Args:
            step: number of complete steps.
            make: create the folder; in distributed training, only rank 0 does.
        """
        published = self._read_result_file()["folder"] if self._has_result else None
        folder = self.path / f"result-{step:09}a"
        if folder.name == published:  # the same step again, after a run was interrupted at its end
            folder = self.path / f"result-{step:09}b"
        if make:
            shutil.rmtree(folder, ignore_errors=True)  # left by a run that was interrupted while it wrote the result
            folder.mkdir()
        return folder

    def publish_result(self, folder: Path, metadata: dict[str, Any]) -> None:
        """Replace the old result by a new one; a reader sees one or the other.

        Args:
            folder: folder of `create_result_folder` with the arrays as .npy files.
            metadata: further entries of result.json.
        """
        arrays = sorted(file.stem for file in folder.glob("*.npy"))
        content = {"kind": "result", "version": _VERSION, "folder": folder.name, "arrays": arrays, **metadata}
        write_json(self._result_file, content)
        for old in self.path.glob("result-*"):
            if old.name != folder.name:
                shutil.rmtree(old, ignore_errors=True)

    def open_result(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Open the newest result without checking it: memory-mapped arrays by name, and the metadata.

        Raises:
            NotFoundError: the run has no result yet.
            DamagedError: an array is missing.
            ValueError, OSError: an array cannot be read.
        """
        missing: Path | None = None
        for _ in range(_READ_ATTEMPTS):
            if not self._has_result:
                break
            metadata = self._read_result_file()
            files = {name: self.path / metadata["folder"] / f"{name}.npy" for name in metadata["arrays"]}
            try:
                arrays = {name: load_array(file, is_mapped=True) for name, file in files.items()}
            except FileNotFoundError as error:
                missing = Path(error.filename)
                continue  # a newer result may have replaced it in the meantime
            return arrays, metadata
        if missing is not None and self._has_result and self._read_result_file()["folder"] == missing.parent.name:
            raise DamagedError(f"{missing} is missing.", advice=self.result_advice)
        raise NotFoundError(
            f"The run {self.id} has no result yet.", advice="Wait for its first evaluation, or resume it."
        )
