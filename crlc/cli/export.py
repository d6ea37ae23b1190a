"""`crlc export`: a run's result to take away, as a table, a page, a folder of links, or a model."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crlc.cli.output import Output, TerminalProgress
from crlc.errors import UsageError
from crlc.names import printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from crlc.training.run_folder import RunFolder
    from crlc.workspace.export.rows import RunExport
    from crlc.workspace.runs import Runs

_TABLES, _PAGE = (".csv", ".parquet"), ".html"
_MAPS = ("umap", "tsne", "pca")


def export_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `export`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")
    kinds = parser.add_mutually_exclusive_group(required=True)
    kinds.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="a table of all images (.csv, .parquet), or a page with the map (.html)",
    )
    kinds.add_argument("--model", type=Path, metavar="FILE", help="the trained network, for: crlc assign FILE PATH")
    kinds.add_argument("--links", type=Path, metavar="DIR", help="a folder per cluster with links to the originals")
    parser.add_argument("--copy", action="store_true", help="with --links: copies instead of links")
    parser.add_argument("--relative", action="store_true", help="with --links: links that are relative")
    parser.add_argument("--without-excluded", action="store_true", help="with a table: leave excluded images out")
    parser.add_argument("--map", choices=_MAPS, help="with --out: which map; by default one that is there already")


def run_export(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Write one of them; nothing that exists is ever overwritten."""
    from crlc.workspace.runs import Runs

    _check(options)
    runs = Runs(workspace)
    run = runs.open(options.run)
    if options.model is not None:
        _model(options, runs, run, output)
    elif options.links is not None:
        _links(options, runs, run, output)
    elif options.out.suffix.lower() == _PAGE:
        _page(options, runs, run, output)
    else:
        _table(options, runs, run, output)
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse options that do not go together, before any work."""
    for name in ("copy", "relative"):
        if getattr(options, name) and options.links is None:
            raise UsageError(f"--{name} is only for --links. Leave it out.")
    if options.without_excluded and (options.out is None or options.out.suffix.lower() not in _TABLES):
        raise UsageError("--without-excluded is only for tables; the others leave them out anyway. Leave it out.")
    if options.copy and options.relative:
        raise UsageError("--copy makes no links, so --relative means nothing with it. Choose one.")
    if options.map is not None and options.out is None:
        raise UsageError("--map is only for --out. Leave it out.")
    if options.out is not None and options.out.suffix.lower() not in (*_TABLES, _PAGE):
        raise UsageError(
            f"--out {printable(str(options.out))}: its ending says what is written, so choose "
            f"{', '.join(_TABLES)} or {_PAGE}."
        )


def _gathered(options: argparse.Namespace, runs: Runs, run: RunFolder, *, map_needed: bool = False) -> RunExport:
    from crlc.analysis.map_settings import MapSettings
    from crlc.workspace.annotations import Annotations
    from crlc.workspace.export.rows import RunExport
    from crlc.workspace.run_files import read_result
    from crlc.workspace.run_maps import kept_map

    dataset = runs.dataset_of(run.description(), unchanged=False)
    method = options.map
    if method is None and map_needed and kept_map(run, read_result(run).arrays["z"]) is None:
        method = _MAPS[0]
    wanted = None if method is None else MapSettings(method)
    with Annotations(dataset) as annotations:
        return RunExport.of(run, dataset, annotations.refresh(), wanted_map=wanted, report=TerminalProgress())


def _table(options: argparse.Namespace, runs: Runs, run: RunFolder, output: Output) -> None:
    from crlc.workspace.export.places import require_new_file
    from crlc.workspace.export.tables import write_table

    require_new_file(options.out)
    export = _gathered(options, runs, run)
    report = write_table(export, options.out, TerminalProgress(), excluded=not options.without_excluded)
    lines = [f"Wrote {report.images:,} images to {printable(str(options.out))}."]
    if report.not_assigned:
        lines.append(f"Not assigned, as they came or changed after the run: {report.not_assigned:,}.")
    if export.places is None:
        lines.append("Without places on a map, as none is there yet: add --map umap to compute one.")
    _say(output, run, options.out, {**asdict(report), "map": export.places is not None}, lines)


def _page(options: argparse.Namespace, runs: Runs, run: RunFolder, output: Output) -> None:
    from crlc.workspace.export.html_map import write_html_map
    from crlc.workspace.export.places import require_new_file
    from crlc.workspace.run_colours import colour_slots

    require_new_file(options.out)
    export = _gathered(options, runs, run, map_needed=True)
    slots = colour_slots(runs.workspace, run)
    report = write_html_map(export, options.out, TerminalProgress(), slots=slots)
    lines = [f"Wrote a map of {report.images:,} images to {printable(str(options.out))}; open it in a browser."]
    if report.thumbnails < report.images:
        lines.append(f"Images without a picture: {report.images - report.thumbnails:,}.")
    if report.left_out:
        lines.append(f"Left out, as they are excluded or not on the map: {report.left_out:,}.")
    _say(output, run, options.out, asdict(report), lines)


def _links(options: argparse.Namespace, runs: Runs, run: RunFolder, output: Output) -> None:
    from crlc.workspace.export.links import write_links

    kind = "copy" if options.copy else "relative" if options.relative else "absolute"
    report = write_links(_gathered(options, runs, run), options.links, kind, TerminalProgress())
    what = "copies" if options.copy else "links"
    lines = [f"Made {report.images:,} {what} in {report.clusters} folders of {printable(str(options.links))}."]
    left_out = {
        "excluded": report.excluded,
        "not assigned": report.not_assigned,
        "original not there or not readable": report.missing,
    }
    lines += [f"Left out, {reason}: {count:,}." for reason, count in left_out.items() if count]
    _say(output, run, options.links, asdict(report), lines)


def _model(options: argparse.Namespace, runs: Runs, run: RunFolder, output: Output) -> None:
    from crlc.workspace.export.places import require_new_file, trouble_explained

    require_new_file(options.model)

    from crlc.training.device import choose_device
    from crlc.training.model_file import save_model
    from crlc.workspace.models import named_model

    model = named_model(runs, run, choose_device("cpu"))
    with trouble_explained(options.model):
        save_model(model, options.model)
    shown = printable(str(options.model))
    facts = {"clusters": model.settings.clusters, "names": {str(n): name for n, name in model.clusters.names.items()}}
    lines = [f"Wrote the model of {run.id} to {shown}. Use it with: crlc assign {shown} PATH"]
    _say(output, run, options.model, facts, lines)


def _say(output: Output, run: RunFolder, place: Path, facts: dict[str, Any], lines: list[str]) -> None:
    output.result({"run": run.id, "written": printable(str(place)), **facts}, lines)
