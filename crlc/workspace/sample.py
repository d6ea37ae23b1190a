"""The example that comes with the project: the digits with a finished run, put into a workspace at its first start.

`example.json` in the workspace says that this was decided, so that whoever deletes the example does not get it back. It
says `placing` while the example is on its way: what was cut off is carried on at the next start. The run's description
is written last, so that nobody sees half a run.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

from crlc.data.dataset import ImageDataset
from crlc.data.manifest import Manifest
from crlc.errors import BusyError, DamagedError, disk_full_explained
from crlc.files import read_json, write_json, writer_lock
from crlc.progress import ProgressCallback, no_progress
from crlc.training.run_folder import RunFolder
from crlc.workspace.workspace import Workspace

SAMPLE_FILE = Path(__file__).resolve().parents[2] / "assets" / "digits-run.zip"
"""Made by `python assets/make_sample_run.py`."""

SAMPLE_DATASET, SAMPLE_RUN = "digits", "digits-example"
FACTS_FILE = "sample.json"
KIND, VERSION = "sample", 1
_MARKER, _MARKER_KIND, _MARKER_VERSION = "example.json", "example", 1
_PLACING, _DECIDED = "placing", "decided"
_ADVICE = "Delete it; the example is then put in place again if there are no data sets."
_BROKEN = "Get the project anew, or make it again with: python assets/make_sample_run.py"


def place_sample_once(
    workspace: Workspace, archive: Path = SAMPLE_FILE, report: ProgressCallback = no_progress
) -> str | None:
    """Put the example into a workspace that was never started before and has no data sets.

    Cut off anywhere, it is carried on by the next call. Of several callers at a time one does it.

    Args:
        workspace: which.
        archive: the example.
        report: told how far the import is.

    Returns:
        the id of the run, if it was put there now.

    Raises:
        CrlcError: it cannot be had; the next call tries again.
    """
    if not wants_sample(workspace):
        if _state(workspace) is None and workspace.root.is_dir():
            decline_sample(workspace)  # whoever removes their own data sets later has not asked for ours
        return None
    with disk_full_explained(workspace.root):
        workspace.root.mkdir(parents=True, exist_ok=True)
        try:
            with writer_lock(workspace.root / "locks" / "example.lock", "The example"):
                return _placed(workspace, archive, report) if wants_sample(workspace) else None
        except BusyError:
            return None  # another server does it


def wants_sample(workspace: Workspace) -> bool:
    """Whether the example is still to be put there: the workspace is new, or that was cut off."""
    state = _state(workspace)
    return state == _PLACING or (state is None and not workspace.dataset_names())


def decline_sample(workspace: Workspace) -> None:
    """Have no example in this workspace."""
    workspace.root.mkdir(parents=True, exist_ok=True)
    _mark(workspace, _DECIDED)


def has_sample_run(workspace: Workspace) -> bool:
    """Whether the example's run is there."""
    return (_run_folder(workspace) / "run.json").exists()


def digest_of(dataset: ImageDataset) -> str:
    """What a data set holds: ids, places and contents of all readable images. A run's ids mean nothing in another."""
    digest = hashlib.sha256()
    with Manifest(dataset.folder) as manifest:
        for record in manifest.records("status = 'ok'"):
            digest.update(json.dumps([record.id, record.path, record.hash]).encode())
    return digest.hexdigest()


def sample_facts(archive: Path = SAMPLE_FILE) -> dict[str, Any]:
    """What the example is, from its archive.

    Raises:
        DamagedError: it is not there, or not whole.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            facts: dict[str, Any] = json.loads(opened.read(FACTS_FILE))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DamagedError(f"The example {archive} cannot be read ({error}). {_BROKEN}") from None
    if (facts.get("kind"), facts.get("version")) != (KIND, VERSION):
        raise DamagedError(f"{archive} is no example that this program knows. {_BROKEN}")
    return facts


def _placed(workspace: Workspace, archive: Path, report: ProgressCallback) -> str | None:
    facts = sample_facts(archive)
    _mark(workspace, _PLACING)
    dataset, _ = workspace.import_dataset(SAMPLE_DATASET, report=report)
    # Other images would come under the run's ids; the data set alone is an example, too.
    fits = digest_of(dataset) == facts["digest"]
    if fits and not has_sample_run(workspace):
        _unpack(archive, facts, dataset, _run_folder(workspace))
    _mark(workspace, _DECIDED)
    return SAMPLE_RUN if fits else None


def _unpack(archive: Path, facts: dict[str, Any], dataset: ImageDataset, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that was cut off: without a description it is no run
    try:
        with zipfile.ZipFile(archive) as opened:
            for entry in opened.infolist():
                if entry.filename != FACTS_FILE:
                    written = Path(opened.extract(entry, folder))
                    with written.open("rb+") as stream:
                        os.fsync(stream.fileno())
    except zipfile.BadZipFile as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise DamagedError(f"The example {archive} is damaged ({error}). {_BROKEN}") from None
    run = RunFolder(folder)
    run.write_status("finished", **facts["status"])
    own = {"dataset": dataset.name, "dataset_uid": dataset.info.uid, "manifest_version": dataset.version}
    run.write_description({**facts["description"], **own})


def _run_folder(workspace: Workspace) -> Path:
    return workspace.root / "runs" / SAMPLE_RUN


def _state(workspace: Workspace) -> str | None:
    file = workspace.root / _MARKER
    if not file.exists():
        return None
    return str(read_json(file, _MARKER_KIND, _MARKER_VERSION, _ADVICE)["state"])


def _mark(workspace: Workspace, state: str) -> None:
    write_json(workspace.root / _MARKER, {"kind": _MARKER_KIND, "version": _MARKER_VERSION, "state": state})
