"""Checkpoints: one file with everything needed to resume a run exactly; loading it runs no code from the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import IO, Any, TypedDict, cast

import torch
from torch import Tensor

from crlc.errors import CrlcError, DamagedError, NotFoundError, explain_system_error
from crlc.files import write_file
from crlc.json_schema import check_entries
from crlc.model.weights_file import require_checksums
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState

_FORMAT = 1
_ADVICE = "Delete it to start the run from the beginning."
_FINISHED_ADVICE = (
    "The clusters of the run can still be viewed, edited and exported as tables, web page and folders. "
    "For its model, train again."
)
_MAX_REASON_LENGTH = 160
_STORED_NAMES = {"optimizer": "optimiser", "latest_metrics": "latest"}
"""Names in the file, for fields whose name differs."""


def save_checkpoint(file: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint atomically: a crash leaves the previous one intact."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, partial(write_tensors, {"format": _FORMAT, **content}))


def write_tensors(content: dict[str, Any], stream: IO[bytes]) -> None:
    """Write tensors and plain values to a stream, in the format of `torch.save`.

    Raises:
        OSError: writing failed. torch itself raises RuntimeError ("enforce fail at inline_container") instead.
    """
    recorder = _ErrorRecorder(stream)
    try:
        torch.save(content, cast("IO[bytes]", recorder))
    except RuntimeError as error:
        if recorder.error is None:
            raise
        raise recorder.error from error


class _ErrorRecorder:
    """Stream that stores the error of a failed write."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, content: bytes) -> int:
        try:
            return self._stream.write(content)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._stream.flush()


class WeightsEntries(TypedDict):
    """Schema of a checkpoint that only provides initial weights."""

    network: dict[str, Tensor]


class ModelEntries(WeightsEntries):
    """Schema of a checkpoint whose network is used without training it further."""

    settings: dict[str, Any]
    subhead: int


def get_checkpoint_advice(run: RunFolder) -> str:
    """Return what the user can do about a damaged checkpoint: a run that is finished would lose its result."""
    with suppress(CrlcError):
        if run.read_status().state is RunState.FINISHED:
            return _FINISHED_ADVICE
    return _ADVICE


def load_run_checkpoint(run: RunFolder, schema: type) -> dict[str, Any]:
    """Read the newest checkpoint of a run, as `load_checkpoint` does.

    Raises:
        NotFoundError: the run has no checkpoint.
        DamagedError: the checkpoint cannot be read.
    """
    advice = get_checkpoint_advice(run)
    if not run.checkpoint_file.exists():
        if advice == _FINISHED_ADVICE:
            raise NotFoundError(f"The run {run.id} is finished, but has no checkpoint.", advice=advice)
        raise NotFoundError(
            f"The run {run.id} has no checkpoint yet.", advice="Wait for its first one, or resume the run."
        )
    return load_checkpoint(run.checkpoint_file, schema, advice)


def load_checkpoint(file: Path, schema: type, advice: str = _ADVICE) -> dict[str, Any]:
    """Read a checkpoint to the CPU; only tensors and plain values are read from the file.

    Loaded to a GPU, network and optimizer would be there twice until the run has copied them.

    Args:
        file: the checkpoint.
        schema: dataclass or `TypedDict` with the types of the entries (see `crlc.json_schema`).
        advice: what the user can do when the file cannot be read.

    Raises:
        DamagedError: the file is not a checkpoint, an entry is missing or wrong, or a newer version wrote it.
    """
    try:
        require_checksums(file)
        content: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        explained = explain_system_error(error, file)
        if explained is not None:
            raise explained from None
        raise DamagedError(f"{file} cannot be read ({_shorten(error)}).", advice=advice) from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise DamagedError(
            f"{file} is not a checkpoint that this version can read.",
            advice=f"Update CRLC Studio if a newer version wrote it. {advice}",
        )
    try:
        check_entries(content, schema)
    except ValueError as error:
        raise DamagedError(f"{file} is damaged: it {error}.", advice=advice) from None
    return content


@contextmanager
def explain_damaged_checkpoint(file: Path, advice: str = _ADVICE) -> Iterator[None]:
    """Convert the errors of torch for weights and states that do not fit to `DamagedError`."""
    try:
        yield
    except CrlcError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        explained = explain_system_error(error, file)
        if explained is not None:
            raise explained from None
        raise DamagedError(f"{file} is damaged: its parts do not fit ({_shorten(error)}).", advice=advice) from None


def _shorten(error: Exception) -> str:
    """Return the first line of an error; those of torch have many."""
    return (str(error) or type(error).__name__).splitlines()[0][:_MAX_REASON_LENGTH]


@dataclass(frozen=True)
class TrainingState:
    """All resumable state of a run. It has no random state: random draws depend only on the seed and the step."""

    settings: dict[str, Any]
    batch_size: int
    step: int
    """Number of complete steps."""

    network: dict[str, Tensor]
    """Weights and buffers that training can change."""

    stage: int
    """Index of the current stage, which the next three fields belong to."""

    optimizer: dict[str, Any]
    bank: dict[str, Tensor] | None
    totals: dict[str, Tensor]
    """Sums over the steps of the current epoch."""

    scaler: dict[str, Any]
    subhead: int
    """The selected subhead."""

    subhead_by_loss: int
    """The subhead with the lowest clustering loss of the last epoch."""

    latest_metrics: dict[str, Any]
    seconds: float
    """Time spent on steps."""

    metrics_length: int
    """Length of the metrics log in bytes; later records are removed on resuming."""

    is_result_selected: bool = False
    """Whether the subhead of the final result is selected and has learnt the consensus, which must happen once."""

    def save(self, file: Path) -> None:
        """Write the state as a checkpoint."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        save_checkpoint(file, {_STORED_NAMES.get(name, name): value for name, value in content.items()})

    @classmethod
    def load(cls, file: Path) -> TrainingState:
        """Read the state from a checkpoint.

        Raises:
            DamagedError: the file is not a checkpoint, or a newer version wrote it.
        """
        names = {field.name: _STORED_NAMES.get(field.name, field.name) for field in fields(cls)}
        content = load_checkpoint(file, WeightsEntries)
        found = {name: content[stored] for name, stored in names.items() if stored in content}
        try:
            check_entries(found, cls)
        except ValueError as error:
            raise DamagedError(f"{file} is damaged: it {error}.", advice=_ADVICE) from None
        return cls(**found)
