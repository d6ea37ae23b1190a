"""Command `export`: result of a run as a table, web page, folders or model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from crlc.analysis.maps.settings import MAP_METHODS
from crlc.cli.options import add_run_argument
from crlc.cli.output import Output
from crlc.errors import UsageError
from crlc.formatting import format_count
from crlc.paths import to_printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.services.export_types import ExportFormat, ExportReport
    from crlc.services.exporters import Exporter

_TOOL_FORMATS = ("imagefolder", "fiftyone", "label-studio", "coco")
"""Formats that the suffix of a file does not determine, as keys of `FORMATS`."""


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `export`."""
    add_run_argument(parser)
    destinations = parser.add_mutually_exclusive_group(required=True)
    destinations.add_argument(
        "--out",
        type=Path,
        metavar="PATH",
        help="table of all images (.csv or .parquet), web page with the map (.html), network (.onnx), or what --format "
        "says",
    )
    destinations.add_argument("--model", type=Path, metavar="FILE", help="trained model, for `crlc assign`")
    destinations.add_argument(
        "--links", type=Path, metavar="DIR", help="one folder per cluster with links to the original images"
    )
    destinations.add_argument(
        "--vectors", type=Path, metavar="FILE", help="feature vectors of all images (.parquet, .npz or .npy)"
    )
    parser.add_argument(
        "--features",
        choices=("z", "h"),
        help="with --vectors: learned features of the RL-head, or those of the backbone (default: z)",
    )
    parser.add_argument(
        "--format",
        choices=_TOOL_FORMATS,
        help="with --out: a new folder for Hugging Face (imagefolder) or FiftyOne, or a new .json file for "
        "Label Studio or COCO",
    )
    parser.add_argument("--copy", action="store_true", help="folders only: copy the images instead of linking them")
    parser.add_argument("--relative", action="store_true", help="folders only: create relative links")
    parser.add_argument(
        "--provisional",
        action="store_true",
        help="export the provisional clusters of a dataset without runs; RUN is then the name of the dataset",
    )
    parser.add_argument(
        "--absolute-paths", action="store_true", help="tables only: add a column with the absolute paths of the images"
    )
    parser.add_argument(
        "--no-columns",
        action="store_true",
        help="tables and --format: leave out the columns of the dataset (EXIF, file, quality, and those of an imported "
        "list)",
    )
    parser.add_argument("--without-excluded", action="store_true", help="tables only: leave out excluded images")
    parser.add_argument(
        "--map",
        choices=tuple(MAP_METHODS),
        help="with --out: map whose coordinates are exported, computed if needed (default: any stored map)",
    )


def run_export(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Write an export to a new file or folder; existing ones are never overwritten."""
    from crlc.export.rows import PROVISIONAL
    from crlc.services.export import PROVISIONAL_FORMATS
    from crlc.services.export_types import ExportOptions
    from crlc.services.exporters import ProvisionalExporter, RunExporter
    from crlc.workspace.runs import RunStore

    export_format = _choose_format(options)
    _check_combination(options, export_format)
    if options.provisional and export_format.key not in PROVISIONAL_FORMATS:
        raise UsageError(f"{export_format.title} is not allowed with --provisional: nothing was trained.")
    if options.provisional:
        exporter: Exporter = ProvisionalExporter(workspace, workspace.open_dataset(options.run))
    else:
        exporter = RunExporter(workspace, RunStore(workspace).open(options.run))
    links = "copy" if options.copy else "relative" if options.relative else "absolute"
    destination = options.out or options.model or options.links or options.vectors
    report = exporter.write(
        export_format,
        destination,
        ExportOptions(
            options.map,
            excluded=not options.without_excluded,
            absolute_paths=options.absolute_paths,
            columns=not options.no_columns,
            links=links,
            features=options.features or "z",
        ),
        output.progress,
    )
    content = {
        "run": PROVISIONAL if options.provisional else exporter.get_run().id,
        "written": to_printable(str(destination)),
        **report.details,
    }
    output.print_result(content, [report.text, *_list_hints(exporter, options, export_format, report)])
    return 0


def _choose_format(options: argparse.Namespace) -> ExportFormat:
    """Return the format of the given options.

    Raises:
        UsageError: the suffix of the file determines no format, or --format has no effect.
    """
    from crlc.services.export import FORMATS, find_format

    if options.format and not options.out:
        raise UsageError("--format is not allowed without --out.")
    if options.format:
        return FORMATS[options.format]
    if options.vectors:
        return FORMATS["vectors"]
    return FORMATS["model"] if options.model else FORMATS["folders"] if options.links else find_format(options.out)


def _check_combination(options: argparse.Namespace, export_format: ExportFormat) -> None:
    """Check that the format uses all given options.

    Raises:
        UsageError: an option would have no effect.
    """
    for name in ("copy", "relative"):
        if getattr(options, name) and not export_format.is_folder:
            raise UsageError(f"--{name} is not allowed without --links or --format imagefolder or fiftyone.")
    if options.without_excluded and not export_format.is_table:
        raise UsageError("--without-excluded is only for tables: other exports never contain excluded images.")
    if options.absolute_paths and not export_format.is_table:
        raise UsageError("--absolute-paths is only for tables.")
    if options.no_columns and not export_format.has_columns:
        raise UsageError("--no-columns is only for tables and the formats of --format.")
    if options.features is not None and not options.vectors:
        raise UsageError("--features is not allowed without --vectors.")
    if options.copy and options.relative:
        raise UsageError("--copy and --relative cannot be combined: copies are not links.")
    if options.map is not None and not export_format.has_coordinates:
        raise UsageError("--map is only for tables and the web page.")


def _list_hints(
    exporter: Exporter, options: argparse.Namespace, export_format: ExportFormat, report: ExportReport
) -> list[str]:
    """Return hints for the user: images without a cluster, and commands to run next."""
    hints = []
    if report.details.get("not_assigned") and export_format.is_table:
        images = format_count(report.details["not_assigned"], "image")
        hints.append(f"{images} without a cluster: added or changed after the run.")
    if report.details.get("map") is False:
        hints.append("The columns map_x and map_y are empty: the run has no map yet. Add --map umap to compute one.")
    if export_format.instructions is not None and not options.vectors:
        hints.append(f"To use it:\n\n{export_format.instructions(exporter, to_printable(str(report.path)))}")
    if options.model:
        hints.append(f"To assign new images, run: crlc assign {to_printable(str(report.path))} PATH")
    return hints
