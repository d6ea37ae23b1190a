"""Runs by name: made, listed, found, deleted."""

from __future__ import annotations

import difflib
import os
import platform
import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc import __version__
from crlc.data.dataset import ImageDataset
from crlc.errors import CrlcError, DamagedError, NotFoundError, UsageError
from crlc.names import printable
from crlc.training.run_folder import RunFolder
from crlc.training.settings import TrainSettings
from crlc.workspace.workspace import Workspace

_LONGEST_TITLE = 80
_LISTED = 10


def nearest_hint(wanted: str, names: Sequence[str]) -> str:
    """What a person may have meant: the name that is nearest, as a whole or by its beginning; else what there is."""
    # Ids of runs are long, and people write their beginning. Of several with the same one, the last counts.
    beginnings = {name[: len(wanted)]: name for name in names} | {name: name for name in names}
    near = difflib.get_close_matches(wanted, beginnings, n=1)
    if near:
        return f"Did you mean {beginnings[near[0]]!r}?"
    more = f"{len(names) - _LISTED:,} older ones and " if len(names) > _LISTED else ""
    return f"There are: {more}{', '.join(names[-_LISTED:]) or 'none yet'}."


class Runs:
    """The runs of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        """Take the workspace."""
        self.workspace = workspace
        self._folder = workspace.root / "runs"

    def ids(self) -> list[str]:
        """All runs, oldest first."""
        if not self._folder.is_dir():
            return []
        found = [path for path in self._folder.iterdir() if (path / "run.json").exists()]
        return [
            path.name for path in sorted(found, key=lambda path: ((path / "run.json").stat().st_mtime_ns, path.name))
        ]

    def open(self, run_id: str) -> RunFolder:
        """A run by its id, or by an unambiguous beginning of it; `last` is the newest.

        Raises:
            NotFoundError: there is none, or more than one; the nearest is offered.
        """
        ids = self.ids()
        if run_id == "last" and ids:
            return RunFolder(self._folder / ids[-1])
        matching = [run_id] if run_id in ids else [name for name in ids if name.startswith(run_id)]
        if len(matching) == 1:
            return RunFolder(self._folder / matching[0])
        if len(matching) > 1:
            raise NotFoundError(f"{run_id!r} may be any of {', '.join(matching)}. Give more of the name.")
        hint = nearest_hint(run_id, ids)
        raise NotFoundError(f"No run is named '{printable(run_id)}' in {self.workspace.root}. {hint}")

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
        """Make the folder of a new run on some images of a data set.

        Args:
            dataset: the data set.
            ids: the images.
            settings: how it will be trained.
            preset: by which name people know the settings.
            device: where it will be trained.
            prepare: puts more into the folder, before anybody can find the run.
            more: kept in its description.
        """
        now = datetime.now(UTC)
        stem = f"{dataset.name}-{now:%Y%m%d-%H%M%S}"
        folder = self._free_folder(stem)
        run = RunFolder(folder)
        run.write_ids(ids)
        if prepare is not None:
            prepare(run)
        run.write_description(
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
        run.write_status("queued", epoch=0, epochs=settings.epochs, step=0)
        return run

    def dataset_of(self, description: dict[str, Any], *, unchanged: bool = True) -> ImageDataset:
        """The data set that a run was made on.

        Args:
            description: what the run says of itself.
            unchanged: refuse when images have other content since.

        Raises:
            CrlcError: it is gone, or another one has its name now.
            DamagedError: the description names none.
        """
        missing = [name for name in ("dataset", "dataset_uid", "manifest_version") if name not in description]
        if missing:
            raise DamagedError(f"The description of the run (run.json) has no {', '.join(missing)}. Train again.")
        dataset = self.workspace.dataset(description["dataset"])
        if dataset.info.uid != description["dataset_uid"]:
            raise CrlcError(
                f"The data set {dataset.name!r} was removed and made anew since this run; its images have other ids. "
                "Train again."
            )
        changed = dataset.changed_since(description["manifest_version"]) if unchanged else 0
        if changed:
            raise CrlcError(f"{changed} images of {dataset.name!r} have other content since this run. Train again.")
        return dataset

    def rename(self, run: RunFolder, title: str) -> None:
        """Give a run a title for people; an empty one takes it away. Its id stays.

        Raises:
            UsageError: it is too long.
        """
        title = " ".join(title.split())
        if len(title) > _LONGEST_TITLE:
            raise UsageError(f"The title has {len(title)} letters; it may have up to {_LONGEST_TITLE}.")
        file = run.path / "run.json"
        stamp = file.stat()
        content = {name: value for name, value in run.description().items() if name not in ("kind", "version")}
        run.write_description({**content, "title": title or None})
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # runs are listed by it, oldest first

    def delete(self, run: RunFolder) -> None:
        """Forget a run."""
        shutil.rmtree(run.path)

    def _free_folder(self, stem: str) -> Path:
        number = 1
        while True:
            folder = self._folder / (stem if number == 1 else f"{stem}-{number}")
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                number += 1
            else:
                return folder
