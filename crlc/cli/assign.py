"""Command `assign`: clusters of new images."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from crlc.cli.options import add_device_argument
from crlc.cli.output import Output
from crlc.paths import escape_formula, to_printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.services.assign import NewAssignments


def add_assign_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `assign`."""
    parser.add_argument("run", metavar="RUN|MODEL", help="run id, unique prefix, or 'last'; or a model file")
    parser.add_argument("path", metavar="PATH", help="folder, .zip, .npz, .csv, or image file")
    parser.add_argument("--out", type=Path, metavar="FILE.csv", help="write the result to a new CSV file")
    add_device_argument(parser)


def run_assign(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Assign new images to the clusters of a run or model."""
    from crlc.export.destinations import require_new_file, write_new_text
    from crlc.services.assign import assign_source
    from crlc.services.models import load_model_or_run
    from crlc.training.device import choose_device
    from crlc.workspace.runs import RunStore

    if options.out is not None:
        require_new_file(options.out)
    device = choose_device(options.device)
    model = load_model_or_run(RunStore(workspace), options.run, device)
    names = model.clusters.names
    assigned = assign_source(model, options.path, workspace.root / "downloads", device)
    if options.out is not None:
        write_new_text(options.out, partial(_write_csv, assigned, names))
    rows = [
        {
            "path": to_printable(path),
            "cluster": int(cluster),
            "name": names.get(int(cluster)),
            "confidence": round(float(confidence), 6),
        }
        for path, cluster, confidence in zip(assigned.paths, assigned.clusters, assigned.confidence, strict=True)
    ]
    width = max((len(names[cluster]) + 2 for cluster in set(assigned.clusters.tolist()) & set(names)), default=0)
    lines = [f"{row['cluster']:>4}  {row['name'] or '':<{width}}{row['confidence']:.3f}  {row['path']}" for row in rows]
    summary = f"{len(rows):,} images assigned, {len(assigned.unreadable):,} not readable."
    if options.out is not None:
        lines = [f"{summary} Written to {to_printable(str(options.out))}."]
    else:
        sys.stderr.write(summary + "\n")
    unreadable = {to_printable(path): reason for path, reason in assigned.unreadable.items()}
    output.print_result({"run": model.run, "images": rows, "unreadable": unreadable}, lines)
    return 0


def _write_csv(assigned: NewAssignments, names: Mapping[int, str], stream: TextIO) -> None:
    writer = csv.writer(stream)
    writer.writerow(("path", "cluster", "confidence", "cluster_name"))
    for path, cluster, confidence in zip(assigned.paths, assigned.clusters, assigned.confidence, strict=True):
        name = escape_formula(names.get(int(cluster), ""))
        writer.writerow((escape_formula(to_printable(path)), cluster, f"{confidence:.6f}", name))
