"""Example project: the digits dataset with a finished run, installed when a workspace is used for the first time.

`example.json` in the workspace records that the example was installed or declined, so that an example that the user
deletes does not come back. Its state is `placing` during the installation, so that an interrupted installation
continues at the next start. The metadata of the run is written last, so that an incomplete run is never visible.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any, TypedDict

from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.errors import BusyError, DamagedError, explain_disk_full
from crlc.files import read_json, write_json, writer_lock
from crlc.installation import get_studio_folder
from crlc.progress import ProgressCallback, no_progress
from crlc.runs.folder import RunFolder
from crlc.runs.state import RunState
from crlc.workspace.workspace import Workspace

EXAMPLE_ARCHIVE = get_studio_folder() / "assets" / "digits-run.zip"
"""Archive that `python assets/make_sample_run.py` creates."""

EXAMPLE_DATASET, EXAMPLE_RUN = "digits", "digits-example"
METADATA_FILE = "sample.json"
ARCHIVE_KIND, ARCHIVE_VERSION = "sample", 1
_MARKER, _MARKER_KIND, _MARKER_VERSION = "example.json", "example", 1
_INSTALLING, _DECIDED = "placing", "decided"
_ADVICE = "Delete it. The example is then installed again if there are no datasets."
_ARCHIVE_ADVICE = "Download the project again."


def install_example_once(
    workspace: Workspace, archive: Path = EXAMPLE_ARCHIVE, report: ProgressCallback = no_progress
) -> str | None:
    """Install the example in a workspace that was never used and has no datasets.

    After an interruption, the next call continues. If several processes call it at once, one installs the example.

    Args:
        workspace: receives the example.
        archive: archive of the example.
        report: receives the progress of the import.

    Returns:
        The id of the run if this call installed it, else `None`.

    Raises:
        CrlcError: the example cannot be installed; the next call tries again.
    """
    if not needs_example(workspace):
        if _read_state(workspace) is None and workspace.root.is_dir():
            decline_example(workspace)  # so that removing all datasets later does not install it
        return None
    with explain_disk_full(workspace.root):
        workspace.root.mkdir(parents=True, exist_ok=True)
        try:
            with writer_lock(workspace.root / "locks" / "example.lock", "The example"):
                return _install(workspace, archive, report) if needs_example(workspace) else None
        except BusyError:
            return None  # another server is installing it


def needs_example(workspace: Workspace) -> bool:
    """Return whether the example has to be installed: the workspace is new, or an installation was interrupted."""
    state = _read_state(workspace)
    return state == _INSTALLING or (state is None and not workspace.list_dataset_names())


def decline_example(workspace: Workspace) -> None:
    """Never install the example in this workspace."""
    workspace.root.mkdir(parents=True, exist_ok=True)
    _write_state(workspace, _DECIDED)


def has_example_run(workspace: Workspace) -> bool:
    """Return whether the run of the example is in the workspace."""
    return (_get_run_folder(workspace) / "run.json").exists()


def compute_digest(dataset: ImageDataset) -> str:
    """Return a digest of the ids, paths and contents of all readable images.

    The image ids of a run are valid only in a dataset with the same digest.
    """
    digest = hashlib.sha256()
    with Manifest(dataset.folder) as manifest:
        for record in manifest.read_records("status = 'ok'"):
            digest.update(json.dumps([record.id, record.path, record.hash]).encode())
    return digest.hexdigest()


def read_example_metadata(archive: Path = EXAMPLE_ARCHIVE) -> dict[str, Any]:
    """Read the metadata of the example from its archive.

    Raises:
        DamagedError: the archive is missing or damaged.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            metadata: dict[str, Any] = json.loads(opened.read(METADATA_FILE))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DamagedError(f"The example {archive} cannot be read ({error}).", advice=_ARCHIVE_ADVICE) from None
    if (metadata.get("kind"), metadata.get("version")) != (ARCHIVE_KIND, ARCHIVE_VERSION):
        raise DamagedError(f"{archive} is not an example archive of this version.", advice=_ARCHIVE_ADVICE)
    return metadata


def _install(workspace: Workspace, archive: Path, report: ProgressCallback) -> str | None:
    metadata = read_example_metadata(archive)
    _write_state(workspace, _INSTALLING)
    dataset, _ = workspace.import_dataset(EXAMPLE_DATASET, report=report)
    # If the dataset differs, the ids of the run would refer to other images: only the dataset is installed.
    fits = compute_digest(dataset) == metadata["digest"]
    if fits and not has_example_run(workspace):
        _unpack(archive, metadata, dataset, _get_run_folder(workspace))
    _write_state(workspace, _DECIDED)
    return EXAMPLE_RUN if fits else None


def _unpack(archive: Path, metadata: dict[str, Any], dataset: ImageDataset, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted installation: without metadata it is not a run
    try:
        with zipfile.ZipFile(archive) as opened:
            for entry in opened.infolist():
                if entry.filename != METADATA_FILE:
                    written = Path(opened.extract(entry, folder))
                    with written.open("rb+") as stream:
                        os.fsync(stream.fileno())
    except zipfile.BadZipFile as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise DamagedError(f"The example {archive} is damaged ({error}).", advice=_ARCHIVE_ADVICE) from None
    run = RunFolder(folder)
    run.write_status(RunState.FINISHED, **metadata["status"])
    own = {"dataset": dataset.name, "dataset_uid": dataset.info.uid, "manifest_version": dataset.version}
    run.write_metadata({**metadata["description"], **own})


def _get_run_folder(workspace: Workspace) -> Path:
    return workspace.root / "runs" / EXAMPLE_RUN


class _MarkerEntries(TypedDict):
    state: str


def _read_state(workspace: Workspace) -> str | None:
    file = workspace.root / _MARKER
    if not file.exists():
        return None
    return str(read_json(file, _MARKER_KIND, _MARKER_VERSION, _ADVICE, _MarkerEntries)["state"])


def _write_state(workspace: Workspace, state: str) -> None:
    write_json(workspace.root / _MARKER, {"kind": _MARKER_KIND, "version": _MARKER_VERSION, "state": state})
