"""`crlc assign`: the clusters that a run, or an exported model, gives to images it has never seen."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from crlc.cli.output import Output
from crlc.names import printable, spreadsheet_safe
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.training.new_images import NewAssignments


def assign_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `assign`."""
    parser.add_argument("run", metavar="RUN|MODEL", help="a run's id, the beginning of it, or last; or a model file")
    parser.add_argument("path", metavar="PATH", help="a folder, .zip, .npz, .csv, or one image file")
    parser.add_argument("--out", type=Path, metavar="FILE.csv", help="where to write path, cluster, confidence, name")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))


def run_assign(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Assign new images; the run itself is not changed."""
    from crlc.training.device import choose_device
    from crlc.training.new_images import assign_new
    from crlc.workspace.export.places import require_new_file, write_new_text
    from crlc.workspace.models import run_or_model
    from crlc.workspace.runs import Runs

    if options.out is not None:
        require_new_file(options.out)
    device = choose_device(options.device)
    model = run_or_model(Runs(workspace), options.run, device)
    names = model.clusters.names
    found = assign_new(model, options.path, workspace.root / "downloads", device)
    if options.out is not None:
        write_new_text(options.out, partial(_write, found, names))
    rows = [
        {
            "path": printable(path),
            "cluster": int(cluster),
            "name": names.get(int(cluster)),
            "confidence": round(float(confidence), 6),
        }
        for path, cluster, confidence in zip(found.paths, found.clusters, found.confidence, strict=True)
    ]
    width = max((len(names[cluster]) + 2 for cluster in set(found.clusters.tolist()) & set(names)), default=0)
    lines = [f"{row['cluster']:>4}  {row['name'] or '':<{width}}{row['confidence']:.3f}  {row['path']}" for row in rows]
    summary = f"{len(rows):,} images assigned, {len(found.unreadable):,} could not be read."
    if options.out is not None:
        lines = [f"{summary} Written to {printable(str(options.out))}."]
    else:
        sys.stderr.write(summary + "\n")
    unreadable = {printable(path): reason for path, reason in found.unreadable.items()}
    output.result({"run": model.run, "images": rows, "unreadable": unreadable}, lines)
    return 0


def _write(found: NewAssignments, names: Mapping[int, str], stream: TextIO) -> None:
    writer = csv.writer(stream)
    writer.writerow(("path", "cluster", "confidence", "cluster_name"))
    for path, cluster, confidence in zip(found.paths, found.clusters, found.confidence, strict=True):
        name = spreadsheet_safe(names.get(int(cluster), ""))
        writer.writerow((spreadsheet_safe(printable(path)), cluster, f"{confidence:.6f}", name))
