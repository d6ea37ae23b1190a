"""Make the example that comes with the project: `python assets/make_sample_run.py` (about two minutes).

It trains the digits with `crlc train digits --preset quick --seed 0`, draws the three maps, and packs the run as
digits-run.zip beside this file; with `--trained WORKSPACE` the newest run there is packed. To keep it small, z and h
are rounded to half precision, and the checkpoint is without the optimiser's state, which a finished run does not need.
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

from crlc.analysis.map_settings import METHODS, MapSettings
from crlc.cli.main import main as crlc
from crlc.training.checkpoint import load_checkpoint
from crlc.training.run_folder import RunFolder
from crlc.workspace import Workspace
from crlc.workspace.run_maps import run_map
from crlc.workspace.runs import Runs
from crlc.workspace.sample import FACTS_FILE, KIND, SAMPLE_DATASET, SAMPLE_FILE, VERSION, digest_of

COMMAND = ("train", SAMPLE_DATASET, "--preset", "quick", "--seed", "0")
_TITLE = "Example"
_ROUNDED = ("z", "h")
_LEFT_OUT = ("optimiser", "bank")
_KEPT_STATUS = ("epoch", "epochs", "step", "steps", "stage")
_OF_THE_WORKSPACE = ("kind", "version", "dataset", "dataset_uid", "manifest_version")
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""In the archive: the same run gives the same file."""


def main() -> int:
    """Train, draw, pack."""
    parser = argparse.ArgumentParser(description="Make the example that comes with the project.")
    parser.add_argument("--trained", type=Path, metavar="WORKSPACE", help="pack the newest run there; do not train")
    trained = parser.parse_args().trained
    with tempfile.TemporaryDirectory() as place:
        workspace = Workspace(Path(place, "workspace"))
        if trained is not None:
            shutil.copytree(trained, workspace.root)
        elif crlc([*COMMAND, "--workspace", str(workspace.root)]) != 0:
            return 1
        run = Runs(workspace).open("last")
        facts = describe(run, workspace)
        round_result(run)
        for method in METHODS:
            run_map(run, run.result()[0]["z"], MapSettings(method))
        pack(run, facts, SAMPLE_FILE)
    sys.stdout.write(f"Wrote {SAMPLE_FILE} ({SAMPLE_FILE.stat().st_size:,} bytes).\n")
    return 0


def describe(run: RunFolder, workspace: Workspace) -> dict[str, Any]:
    """What is put into a workspace's own files when the example is placed there."""
    description, status = run.description(), run.status()
    return {
        "kind": KIND,
        "version": VERSION,
        "command": " ".join(("crlc", *COMMAND)),
        "digest": digest_of(workspace.dataset(SAMPLE_DATASET)),
        "description": {
            **{name: value for name, value in description.items() if name not in _OF_THE_WORKSPACE},
            "title": _TITLE,
        },
        "status": {name: status[name] for name in _KEPT_STATUS},
    }


def round_result(run: RunFolder) -> None:
    """Round the large arrays in their files; maps and neighbours are then of the rounded ones."""
    folder = run.path / json.loads((run.path / "result.json").read_text(encoding="utf-8"))["folder"]
    for name in _ROUNDED:
        values = np.load(folder / f"{name}.npy", allow_pickle=False)
        np.save(folder / f"{name}.npy", values.astype(np.float16).astype(values.dtype), allow_pickle=False)


def pack(run: RunFolder, facts: dict[str, Any], archive: Path) -> None:
    """Write the archive."""
    files = {FACTS_FILE: json.dumps(facts, indent=1).encode(), "checkpoints/last.pt": _small_checkpoint(run)}
    for name in ("ids.npy", "metrics.jsonl", "result.json"):
        files[name] = (run.path / name).read_bytes()
    for file in [*run.path.glob("result-*/*.npy"), *run.path.glob("maps/*.npy")]:
        files[file.relative_to(run.path).as_posix()] = file.read_bytes()
    with zipfile.ZipFile(archive, "w") as opened:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _FIRST_DATE)
            entry.external_attr = 0o644 << 16
            opened.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)


def _small_checkpoint(run: RunFolder) -> bytes:
    state = load_checkpoint(run.checkpoint_file, torch.device("cpu"))
    stream = BytesIO()
    torch.save({name: value for name, value in state.items() if name not in _LEFT_OUT}, stream)
    return stream.getvalue()


if __name__ == "__main__":
    raise SystemExit(main())
