"""Images and numbers of an analysis as the command line prints them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from crlc.names import printable

if TYPE_CHECKING:
    from crlc.data.dataset import ImageDataset
    from crlc.workspace.run_analysis import RunAnalysis

_DIGITS = 6


def printable_paths(dataset: ImageDataset, ids: Iterable[Any]) -> dict[int, str]:
    """The path of each image, in the order of the ids; an empty text for one that has none."""
    import numpy as np

    from crlc.workspace.image_lookup import paths_of

    wanted = np.array([int(number) for number in ids], np.int64)
    found = {number: printable(path) for number, path in paths_of(dataset, wanted)} if len(wanted) else {}
    return {number: found.get(number, "") for number in wanted.tolist()}


def rounded(value: Any) -> float | None:
    """A number for JSON; none for none and for what is not a number."""
    return None if value is None or math.isnan(value) else round(float(value), _DIGITS)


def short(value: Any) -> str:
    """A number for people."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"


def called(analysis: RunAnalysis, cluster: int) -> str:
    """A cluster by its number, and its name if it has one."""
    name = analysis.names.get(cluster)
    return str(cluster) if name is None else f"{cluster} {name}"


def left_out_line(analysis: RunAnalysis) -> list[str]:
    """Say how many images of the run do not count any more, if there are such."""
    excluded = int(analysis.curation.is_excluded(analysis.clustering.ids).sum())
    gone = len(analysis.all_z) - len(analysis.clustering.ids)
    parts = [f"{gone:,} removed or changed since the run"] if gone else []
    parts += [f"{excluded:,} excluded"] if excluded else []
    return [f"Left out: {', '.join(parts)}."] if parts else []
