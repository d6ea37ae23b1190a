"""Command `backbones`: pretrained backbones by name, and their download."""

from __future__ import annotations

import argparse

from crlc.cli.output import Output
from crlc.cli.tables import format_table
from crlc.paths import to_printable
from crlc.workspace import Workspace


def add_backbones_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `backbones`."""
    parser.add_argument(
        "--download", metavar="NAME", help="download the weights of a backbone, so that it can be used offline"
    )


def run_backbones(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:  # noqa: ARG001
    """Print the offered backbones, or download one."""
    from crlc.backbone_catalogue import CATALOGUE
    from crlc.services.backbones import describe_availability, download_backbone

    if options.download:
        file = download_backbone(options.download, output.progress)
        text = to_printable(str(file))
        output.print_result({"name": options.download, "file": text}, [f"{options.download} is at {text}."])
        return 0
    rows = [
        {
            "name": one.name,
            "title": one.title,
            "megabytes": one.megabytes,
            "available": one.check_availability().value,
            "status": describe_availability(one),
            "good_for": one.good_for,
            "takes_text": one.takes_text,
        }
        for one in CATALOGUE
    ]
    cells = [[str(row[name]) for name in ("name", "megabytes", "good_for", "status")] for row in rows]
    lines = format_table(("name", "MB", "good for", "on this computer"), cells)
    lines.append(
        "Use one with: crlc train DATASET --backbone NAME. Two joined by + are concatenated. Other names: "
        "torchvision/NAME, timm/NAME, open_clip/NAME:WEIGHTS."
    )
    output.print_result({"backbones": rows}, lines)
    return 0
