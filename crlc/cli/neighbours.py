"""`crlc neighbours`: the images of a run that are most like one of them, several, or a new one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from crlc.cli.image_words import called, printable_paths, rounded, short
from crlc.cli.output import Output, TerminalProgress, table
from crlc.errors import NotFoundError, SourceError
from crlc.names import printable
from crlc.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crlc.workspace.run_analysis import RunAnalysis
    from crlc.workspace.run_neighbours import RunNeighbours


def neighbours_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `neighbours`."""
    parser.add_argument("run", metavar="RUN", help="its id, the beginning of it, or last")
    parser.add_argument(
        "images", metavar="IMAGE", nargs="+", help="its path or id, or a new image file; of several the mean counts"
    )
    parser.add_argument("-k", type=int, default=10, metavar="K", help="how many; by default 10")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))


def run_neighbours(options: argparse.Namespace, workspace: Workspace, output: Output) -> int:
    """Find the nearest images, with similarity s and confidence p."""
    from crlc.workspace.run_analysis import RunAnalysis
    from crlc.workspace.run_neighbours import RunNeighbours

    analysis = RunAnalysis.open(workspace, options.run)
    neighbours = RunNeighbours(analysis, report=TerminalProgress())
    ids, files = _meant(analysis, neighbours, options.images)
    new = None
    if files:
        from crlc.training.device import choose_device
        from crlc.workspace.run_neighbours import NewImages

        images = NewImages(analysis.run, choose_device(options.device))
        new = images.z([file_content(file) for file in files], files)
    found = neighbours.nearest(ids, options.k, new)
    paths = printable_paths(analysis.dataset, [*ids, *found.ids])
    classes = _classes(analysis, found.ids.tolist())
    rows = [
        {
            "id": number,
            "path": paths[number],
            "s": rounded(similarity),
            "p": rounded(confidence),
            "cluster": cluster,
            "class": classes.get(number),
        }
        for number, similarity, confidence, cluster in zip(
            found.ids.tolist(), found.similarity, found.confidence, found.clusters.tolist(), strict=True
        )
    ]
    given = [{"id": number, "path": paths[number]} for number in ids]
    given += [{"id": None, "path": printable(file)} for file in files]
    header = ["id", "s", "p", "cluster", *(["class"] if classes else []), "path"]
    cells = [
        [
            str(row["id"]),
            short(row["s"]),
            short(row["p"]),
            called(analysis, int(str(row["cluster"]))),
            *([str(row["class"] or "-")] if classes else []),
            str(row["path"]),
        ]
        for row in rows
    ]
    content = {
        "run": analysis.run.id,
        "images": given,
        "exact": neighbours.index.exact,
        "recall": rounded(neighbours.index.recall),
        "neighbours": rows,
    }
    output.result(content, table(header, cells))
    return 0


def _meant(analysis: RunAnalysis, neighbours: RunNeighbours, given: Sequence[str]) -> tuple[list[int], list[str]]:
    """Ids of images that the run knows, and files that it does not.

    Raises:
        NotFoundError: one is neither.
    """
    from crlc.workspace.image_lookup import ImageLookup

    ids, files = [], []
    with ImageLookup(analysis.dataset) as lookup:
        for text in given:
            is_file = Path(text).is_file()
            try:
                number = lookup.find(text)
                neighbours.rows_of([number])
            except NotFoundError:
                if not is_file:
                    raise
                files.append(text)
            else:
                ids.append(number)
    return ids, files


def file_content(file: str) -> bytes:
    """The bytes of an image file that is in no data set.

    Raises:
        SourceError: it cannot be read.
    """
    from crlc.data.sources import UnreadableError
    from crlc.data.sources.folder import read_file

    try:
        return read_file(file)
    except UnreadableError as error:
        raise SourceError(f"{printable(file)} is no readable image: {error}.") from None


def _classes(analysis: RunAnalysis, ids: list[int]) -> dict[int, str]:
    """The classes of some images, where they are known."""
    import numpy as np

    facts = analysis.dataset.facts(np.array(ids, np.int64))
    if facts.class_numbers is None:
        return {}
    names = (*facts.class_names, None)
    return {
        number: name
        for number, which in zip(ids, facts.class_numbers.tolist(), strict=True)
        if (name := names[which]) is not None
    }
