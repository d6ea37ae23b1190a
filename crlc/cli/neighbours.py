"""Command `neighbours`: most similar images of a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from crlc.cli.options import add_device_argument, add_run_argument
from crlc.cli.output import Output
from crlc.cli.tables import format_cluster_cell, format_number, format_table, read_printable_paths, round_number
from crlc.errors import NotFoundError, SourceError
from crlc.paths import to_printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crlc.services.analyse_run import RunAnalysis
    from crlc.services.neighbours import RunNeighbours


def add_neighbours_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `neighbours`."""
    add_run_argument(parser)
    parser.add_argument(
        "images",
        metavar="IMAGE",
        nargs="+",
        help="path or id of an image of the run, or a new image file; the features of several images are averaged",
    )
    parser.add_argument("-k", type=int, default=10, metavar="K", help="number of neighbours (default: 10)")
    add_device_argument(parser)


def run_neighbours(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Print the nearest images with their similarity s and confidence p, as in the paper's Fig. 2."""
    from crlc.services.analyse_run import RunAnalysis
    from crlc.services.neighbours import RunNeighbours

    analysis = RunAnalysis.open(workspace, options.run)
    neighbours = RunNeighbours(analysis, report=output.progress)
    ids, files = _resolve_images(analysis, neighbours, options.images)
    new = None
    if files:
        from crlc.services.neighbours import ImageEncoder
        from crlc.training.device import choose_device

        encoder = ImageEncoder(analysis.run, choose_device(options.device))
        new = encoder.encode([read_image_file(file) for file in files], files)
    found = neighbours.find_nearest(ids, options.k, new)
    paths = read_printable_paths(analysis.dataset, [*ids, *found.ids])
    classes = _read_classes(analysis, found.ids.tolist())
    rows = [
        {
            "id": number,
            "path": paths[number],
            "s": round_number(similarity),
            "p": round_number(confidence),
            "cluster": cluster,
            "class": classes.get(number),
        }
        for number, similarity, confidence, cluster in zip(
            found.ids.tolist(), found.similarity, found.confidence, found.clusters.tolist(), strict=True
        )
    ]
    given = [{"id": number, "path": paths[number]} for number in ids]
    given += [{"id": None, "path": to_printable(file)} for file in files]
    header = ["id", "similarity", "confidence", "cluster", *(["class"] if classes else []), "path"]
    cells = [
        [
            str(row["id"]),
            format_number(row["s"]),
            format_number(row["p"]),
            format_cluster_cell(analysis, int(str(row["cluster"]))),
            *([str(row["class"] or "-")] if classes else []),
            str(row["path"]),
        ]
        for row in rows
    ]
    content = {
        "run": analysis.run.id,
        "images": given,
        "exact": neighbours.index.is_exact,
        "recall": round_number(neighbours.index.recall),
        "neighbours": rows,
    }
    output.print_result(content, format_table(header, cells))
    return 0


def _resolve_images(
    analysis: RunAnalysis, neighbours: RunNeighbours, given: Sequence[str]
) -> tuple[list[int], list[str]]:
    """Return the ids of images of the run, and the paths of new image files.

    Raises:
        NotFoundError: an image is neither in the run nor a file.
    """
    from crlc.data.image_lookup import ImageLookup

    ids, files = [], []
    with ImageLookup(analysis.dataset) as lookup:
        for text in given:
            is_file = Path(text).is_file()
            try:
                number = lookup.find(text)
                neighbours.find_rows([number])
            except NotFoundError:
                if not is_file:
                    raise
                files.append(text)
            else:
                ids.append(number)
    return ids, files


def read_image_file(file: str) -> bytes:
    """Read an image file that need not belong to a dataset.

    Raises:
        SourceError: the file cannot be read.
    """
    from crlc.data.sources import UnreadableError
    from crlc.data.sources.folder import read_file

    try:
        return read_file(file)
    except UnreadableError as error:
        raise SourceError(f"{to_printable(file)} is not a readable image: {error}.") from None


def _read_classes(analysis: RunAnalysis, ids: list[int]) -> dict[int, str]:
    """Return the ground-truth classes of images that have one."""
    import numpy as np

    metadata = analysis.dataset.read_metadata(np.array(ids, np.int64))
    if metadata.class_numbers is None:
        return {}
    names = (*metadata.class_names, None)
    return {
        number: name
        for number, index in zip(ids, metadata.class_numbers.tolist(), strict=True)
        if (name := names[index]) is not None
    }
