"""Create the example of the project: `python assets/make_sample_run.py` (about two minutes).

Trains the digits with `crlc train digits --preset quick --seed 0`, computes the three maps, and writes the run to
digits-run.zip in this folder; `--trained WORKSPACE` uses the latest run of a workspace instead. For a small file, z and
h are rounded to half precision, and the checkpoint omits the optimizer state, which a finished run does not need.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crlc.analysis.maps.settings import MAP_METHODS, MapSettings
from crlc.cli.main import main as crlc
from crlc.runs.folder import RunFolder
from crlc.runs.maps import load_or_compute_run_map
from crlc.training.checkpoint import ModelEntries, load_checkpoint
from crlc.workspace import Workspace
from crlc.workspace.example import (
    ARCHIVE_KIND,
    ARCHIVE_VERSION,
    EXAMPLE_ARCHIVE,
    EXAMPLE_DATASET,
    METADATA_FILE,
    compute_digest,
)
from crlc.workspace.runs import RunStore

COMMAND = ("train", EXAMPLE_DATASET, "--preset", "quick", "--seed", "0")
_TITLE = "Example"
_ROUNDED_ARRAYS = ("z", "h")
_OMITTED_STATE = ("optimiser", "bank")
_STATUS_FIELDS = ("epoch", "epochs", "step", "steps", "stage")
_WORKSPACE_FIELDS = ("kind", "version", "dataset", "dataset_uid", "manifest_version")
_ARCHIVE_DATE = (1980, 1, 1, 0, 0, 0)
"""A fixed date in the archive: the same run gives the same file."""


def main() -> int:
    """Train the run, compute the maps and write the archive."""
    parser = argparse.ArgumentParser(description="Create the example of the project.")
    parser.add_argument(
        "--trained", type=Path, metavar="WORKSPACE", help="use the latest run of this workspace; do not train"
    )
    trained = parser.parse_args().trained
    with tempfile.TemporaryDirectory() as temporary:
        workspace = Workspace(Path(temporary, "workspace"))
        if trained is not None:
            shutil.copytree(trained, workspace.root)
        elif crlc([*COMMAND, "--workspace", str(workspace.root)]) != 0:
            return 1
        run = RunStore(workspace).open("last")
        metadata = describe_run(run, workspace)
        round_result(run)
        for method in MAP_METHODS:
            load_or_compute_run_map(run, run.open_result()[0]["z"], MapSettings(method))
        write_archive(run, metadata, EXAMPLE_ARCHIVE)
    sys.stdout.write(f"Wrote {EXAMPLE_ARCHIVE} ({EXAMPLE_ARCHIVE.stat().st_size:,} bytes).\n")
    return 0


def describe_run(run: RunFolder, workspace: Workspace) -> dict[str, Any]:
    """Return the metadata that a workspace stores with the example."""
    description, status = run.read_metadata(), run.read_status()
    return {
        "kind": ARCHIVE_KIND,
        "version": ARCHIVE_VERSION,
        "command": " ".join(("crlc", *COMMAND)),
        "digest": compute_digest(workspace.open_dataset(EXAMPLE_DATASET)),
        "description": {
            **{name: value for name, value in description.items() if name not in _WORKSPACE_FIELDS},
            "title": _TITLE,
        },
        "status": {name: getattr(status, name) for name in _STATUS_FIELDS},
    }


def round_result(run: RunFolder) -> None:
    """Round the large arrays in their files, before maps and neighbours are computed."""
    folder = run.path / json.loads((run.path / "result.json").read_text(encoding="utf-8"))["folder"]
    for name in _ROUNDED_ARRAYS:
        values = np.load(folder / f"{name}.npy", allow_pickle=False)
        np.save(folder / f"{name}.npy", values.astype(np.float16).astype(values.dtype), allow_pickle=False)


def write_archive(run: RunFolder, metadata: dict[str, Any], archive: Path) -> None:
    """Write the files of the run and its metadata to a zip archive."""
    files = {METADATA_FILE: json.dumps(metadata, indent=1).encode(), "checkpoints/last.pt": _reduce_checkpoint(run)}
    for name in ("ids.npy", "metrics.jsonl", "result.json"):
        files[name] = (run.path / name).read_bytes()
    for file in [*run.path.glob("result-*/*.npy"), *run.path.glob("maps/*.npy")]:
        files[file.relative_to(run.path).as_posix()] = file.read_bytes()
    with zipfile.ZipFile(archive, "w") as opened:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _ARCHIVE_DATE)
            entry.external_attr = 0o644 << 16
            opened.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)


def _reduce_checkpoint(run: RunFolder) -> bytes:
    state = load_checkpoint(run.checkpoint_file, ModelEntries)
    stream = BytesIO()
    torch.save({name: value for name, value in state.items() if name not in _OMITTED_STATE}, stream)
    return stream.getvalue()


if __name__ == "__main__":
    raise SystemExit(main())
