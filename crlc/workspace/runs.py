"""Runs of a workspace by id: create, list, open, rename and delete."""

from __future__ import annotations

import difflib
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc import __version__
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, NotFoundError
from crlc.formatting import format_count
from crlc.paths import to_printable
from crlc.runs.folder import RunFolder
from crlc.runs.run_title import normalize_title
from crlc.runs.state import RunState
from crlc.training.settings import TrainSettings
from crlc.workspace.workspace import Workspace

_LISTED_NAMES = 10


def suggest_name(wanted: str, names: Sequence[str]) -> str:
    """Return a sentence that suggests the most similar name, or lists the existing names.

    Args:
        wanted: unknown name that the user gave.
        names: existing names, oldest first.
    """
    # Run ids are long, and users type a prefix. Of several names with the same prefix, the newest is suggested.
    by_prefix = {name[: len(wanted)]: name for name in names} | {name: name for name in names}
    near = difflib.get_close_matches(wanted, by_prefix, n=1)
    if near:
        return f"Did you mean {by_prefix[near[0]]!r}?"
    more = f"{len(names) - _LISTED_NAMES:,} older ones and " if len(names) > _LISTED_NAMES else ""
    return f"There are: {more}{', '.join(names[-_LISTED_NAMES:]) or 'none yet'}."


class RunStore:
    """The runs of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        """Store the workspace."""
        self.workspace = workspace
        self._folder = workspace.root / "runs"

    def list_ids(self) -> list[str]:
        """Return the ids of all runs, oldest first; also of those that the user has no permission to read."""
        if not self._folder.is_dir():
            return []
        found = [(stamp, path.name) for path in self._folder.iterdir() if (stamp := _read_stamp(path)) is not None]
        return [name for _, name in sorted(found)]

    def open(self, run_id: str) -> RunFolder:
        """Open a run.

        Args:
            run_id: run id, unique prefix, or `last` for the newest run.

        Raises:
            NotFoundError: no run or several runs match; the advice suggests a similar id.
        """
        ids = self.list_ids()
        if run_id == "last" and ids:
            return RunFolder(self._folder / ids[-1])
        matching = [run_id] if run_id in ids else [name for name in ids if name.startswith(run_id)]
        if len(matching) == 1:
            return RunFolder(self._folder / matching[0])
        if len(matching) > 1:
            raise NotFoundError(
                f"{run_id!r} is the prefix of several runs: {', '.join(matching)}.", advice="Give a longer prefix."
            )
        hint = suggest_name(run_id, ids)
        raise NotFoundError(f"No run is named '{to_printable(run_id)}' in {self.workspace.root}.", advice=hint)

    def create(
        self,
        dataset: ImageDataset,
        ids: NDArray[np.int64],
        settings: TrainSettings,
        preset: str,
        device: str,
        *,
        prepare: Callable[[RunFolder], None] | None = None,
        **more: Any,
    ) -> RunFolder:
        """Create the folder of a new run, in the state `queued`.

        Args:
            dataset: dataset of the run.
            ids: ids of the training images.
            settings: training settings.
            preset: name of the preset that the settings come from.
            device: device that trains the run.
            prepare: adds files to the folder before the run becomes visible.
            more: further entries of the metadata.
        """
        now = datetime.now(UTC)
        stem = f"{dataset.name}-{now:%Y%m%d-%H%M%S}"
        folder = self._create_folder(stem)
        run = RunFolder(folder)
        run.write_ids(ids)
        if prepare is not None:
            prepare(run)
        run.write_metadata(
            {
                "dataset": dataset.name,
                "dataset_uid": dataset.info.uid,
                "manifest_version": dataset.version,
                "preset": preset,
                "device": device,
                "settings": settings.to_json(),
                **more,
                "created": now.isoformat(timespec="seconds"),
                "versions": {"crlc": __version__, "python": platform.python_version(), "torch": version("torch")},
            }
        )
        run.write_status(RunState.QUEUED, epoch=0, epochs=settings.stages.epochs, step=0)
        return run

    def open_dataset_of(self, metadata: dict[str, Any], *, require_unchanged: bool = True) -> ImageDataset:
        """Open the dataset that a run was trained on.

        Args:
            metadata: content of run.json.
            require_unchanged: refuse if images have changed since the run.

        Raises:
            CrlcError: the dataset was removed, or images have changed.
        """
        dataset = self.workspace.open_dataset(metadata["dataset"])
        if dataset.info.uid != metadata["dataset_uid"]:
            raise CrlcError(
                f"The dataset {dataset.name!r} was removed and imported again since this run: its image ids differ.",
                advice="Train again.",
            )
        changed = dataset.count_changed_since(metadata["manifest_version"]) if require_unchanged else 0
        if changed:
            raise CrlcError(
                f"{format_count(changed, 'image')} of {dataset.name!r} changed since this run.", advice="Train again."
            )
        return dataset

    def rename(self, run: RunFolder, title: str) -> None:
        """Set the title of a run; an empty title removes it. The run id does not change.

        Raises:
            UsageError: the title is too long.
        """
        title = normalize_title(title)
        file = run.path / "run.json"
        stamp = file.stat()
        content = {name: value for name, value in run.read_metadata().items() if name not in ("kind", "version")}
        run.write_metadata({**content, "title": title or None})
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # the list of runs is sorted by this time

    def delete(self, run: RunFolder) -> None:
        """Delete a run with all its files."""
        shutil.rmtree(run.path)

    def _create_folder(self, stem: str) -> Path:
        number = 1
        while True:
            folder = self._folder / (stem if number == 1 else f"{stem}-{number}")
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                number += 1
            else:
                return folder


def _read_stamp(folder: Path) -> int | None:
    """Return the time at which the run in a folder was created; `None` if the folder has no run.

    A run whose file cannot be read, such as one without permissions or a link to itself, must not hide the others.
    """
    try:
        return (folder / "run.json").stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        with suppress(FileNotFoundError):  # removed in the meantime
            return folder.lstat().st_mtime_ns
    return None
