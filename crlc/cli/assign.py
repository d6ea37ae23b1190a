"""`crlc assign`: the clusters that a run gives to images it has never seen."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from crlc.cli.output import Output
from crlc.errors import CrlcError, UsageError
from crlc.names import printable, spreadsheet_safe
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.training.new_images import NewAssignments


def assign_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `assign`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")
    parser.add_argument("path", metavar="PATH", help="a folder, .zip, .npz, .csv, or one image file")
    parser.add_argument("--out", type=Path, metavar="FILE.csv", help="where to write path, cluster and confidence")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))


def run_assign(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Assign new images; the run itself is not changed."""
    from crlc.training.device import choose_device
    from crlc.training.new_images import assign_new
    from crlc.workspace.runs import Runs

    run = Runs(workspace).open(options.run)
    if options.out is not None and options.out.exists():
        raise UsageError(f"{options.out} exists already. Choose another name, or delete it first.")
    found = assign_new(run, options.path, workspace.root / "downloads", choose_device(options.device))
    if options.out is not None:
        _write(found, options.out)
    rows = [
        {"path": printable(path), "cluster": int(cluster), "confidence": round(float(confidence), 6)}
        for path, cluster, confidence in zip(found.paths, found.clusters, found.confidence, strict=True)
    ]
    lines = [f"{row['cluster']:>4}  {row['confidence']:.3f}  {row['path']}" for row in rows]
    summary = f"{len(rows):,} images assigned, {len(found.unreadable):,} could not be read."
    if options.out is not None:
        lines = [f"{summary} Written to {options.out}."]
    else:
        sys.stderr.write(summary + "\n")
    unreadable = {printable(path): reason for path, reason in found.unreadable.items()}
    output.result({"run": run.id, "images": rows, "unreadable": unreadable}, lines)
    return 0


def _write(found: NewAssignments, file: Path) -> None:
    try:
        with file.open("x", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(("path", "cluster", "confidence"))
            for path, cluster, confidence in zip(found.paths, found.clusters, found.confidence, strict=True):
                writer.writerow((spreadsheet_safe(printable(path)), cluster, f"{confidence:.6f}"))
    except OSError as error:
        raise CrlcError(f"{file} cannot be written: {error.strerror}. Choose another place.") from None
