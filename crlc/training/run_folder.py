"""The files of one run, which are the contract between trainer, CLI and app.

`status.json` is replaced whole; `metrics.jsonl` only grows (a torn last line is dropped on reading, and
resuming cuts it back to the checkpoint); `result.json` names the folder that holds the newest result.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from crlc.errors import NotFoundError
from crlc.files import read_json, write_json

_VERSION = 1
_ADVICE = "Delete the run's folder if it is of no use."
STATES = ("queued", "running", "stopping", "stopped", "finished", "failed")
_UNFINISHED = ("queued", "running", "stopping")
_RESULT_ATTEMPTS = 10


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path) -> None:
        """Take the folder; nothing is read yet."""
        self.path = path

    @property
    def id(self) -> str:
        """The run's name: that of its folder."""
        return self.path.name

    @property
    def checkpoint_file(self) -> Path:
        """Where the newest checkpoint is, once there is one."""
        return self.path / "checkpoints" / "last.pt"

    # ---- what the run is

    def write_description(self, content: dict[str, Any]) -> None:
        """Write run.json: settings, data set, versions."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "run.json", {"kind": "run", "version": _VERSION, **content})

    def description(self) -> dict[str, Any]:
        """Read run.json."""
        return read_json(self.path / "run.json", "run", _VERSION, _ADVICE)

    def write_ids(self, ids: NDArray[np.int64]) -> None:
        """Note which images the run is about."""
        np.save(self.path / "ids.npy", ids, allow_pickle=False)

    def ids(self) -> NDArray[np.int64]:
        """The images the run is about."""
        ids: NDArray[np.int64] = np.load(self.path / "ids.npy", allow_pickle=False)
        return ids

    # ---- how it goes

    def write_status(self, state: str, **facts: Any) -> None:
        """Write status.json, with this process as the one that runs it."""
        me = psutil.Process()
        content = {
            "state": state,
            "pid": me.pid,
            "process_started": me.create_time(),
            "heartbeat": time.time(),
            **facts,
        }
        write_json(self.path / "status.json", {"kind": "status", "version": _VERSION, **content})

    def status(self) -> dict[str, Any]:
        """Read status.json; a run whose process is gone is failed (interrupted), whatever the file says."""
        if not (self.path / "status.json").exists():
            nothing = {"epoch": 0, "epochs": 0, "step": 0}
            return {"state": "failed", "message": "interrupted before it began. It can be resumed.", **nothing}
        status = read_json(self.path / "status.json", "status", _VERSION, _ADVICE)
        if status["state"] in _UNFINISHED and not is_alive(status["pid"], status["process_started"]):
            return {**status, "state": "failed", "message": "interrupted: its process is gone. It can be resumed."}
        return status

    def ask_to_stop(self) -> None:
        """Leave word for the process that trains; it looks after every step."""
        (self.path / "stop").touch()

    def stop_asked(self) -> bool:
        """Whether somebody wants the run to stop."""
        return (self.path / "stop").exists()

    def forget_stop(self) -> None:
        """Begin (again) without that wish."""
        (self.path / "stop").unlink(missing_ok=True)

    # ---- metrics

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Add one line."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record, allow_nan=False) + "\n")

    def metrics(self) -> Iterator[dict[str, Any]]:
        """All whole lines."""
        file = self.path / "metrics.jsonl"
        if not file.exists():
            return
        with file.open(encoding="utf-8") as stream:
            for line in stream:
                if not line.endswith("\n"):
                    return  # torn by a crash, or being written right now
                yield json.loads(line)

    def flush_metrics(self) -> int:
        """Bring all metrics to the disk, as a checkpoint speaks of them; returns how many bytes they are."""
        file = self.path / "metrics.jsonl"
        if not file.exists():
            return 0
        with file.open("ab") as stream:
            os.fsync(stream.fileno())
            return stream.seek(0, os.SEEK_END)

    def cut_metrics(self, length: int) -> None:
        """Forget the lines after a checkpoint."""
        file = self.path / "metrics.jsonl"
        if file.exists() and file.stat().st_size > length:  # truncating to more would add zeros
            os.truncate(file, length)

    # ---- results

    @property
    def _result_file(self) -> Path:
        return self.path / "result.json"

    @property
    def _has_result(self) -> bool:
        return self._result_file.exists()

    def new_result_folder(self, step: int, *, make: bool = True) -> Path:
        """Where the result of a step is to be written; nobody reads it before `publish_result`."""
        published = read_json(self._result_file, "result", _VERSION, _ADVICE)["folder"] if self._has_result else None
        folder = self.path / f"result-{step:09}a"
        if folder.name == published:  # the same step again, after a run was cut off at its end
            folder = self.path / f"result-{step:09}b"
        if make:
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was cut off while it wrote it
            folder.mkdir()
        return folder

    def publish_result(self, folder: Path, facts: dict[str, Any]) -> None:
        """Put a new result in place of the old one; readers see one or the other."""
        arrays = sorted(file.stem for file in folder.glob("*.npy"))
        content = {"kind": "result", "version": _VERSION, "folder": folder.name, "arrays": arrays, **facts}
        write_json(self._result_file, content)
        for old in self.path.glob("result-*"):
            if old.name != folder.name:
                shutil.rmtree(old, ignore_errors=True)

    def result(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The newest result: memory-mapped arrays, and facts about them.

        Raises:
            NotFoundError: there is none yet.
        """
        for _ in range(_RESULT_ATTEMPTS):
            if not self._has_result:
                break
            facts = read_json(self._result_file, "result", _VERSION, _ADVICE)
            folder = self.path / facts["folder"]
            try:
                names = facts["arrays"]
                return {
                    name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names
                }, facts
            except FileNotFoundError:
                continue  # replaced by a newer one between the two looks
        raise NotFoundError(f"The run {self.id} has no result yet. Wait for its first evaluation, or resume it.")


def is_alive(pid: int, started: float) -> bool:
    """Whether it is this very process that has the number, and it has not ended."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
