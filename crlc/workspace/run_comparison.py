"""Two runs of a data set side by side, over the images that both have."""

from __future__ import annotations

from crlc.analysis.compare import Comparison, compare_runs
from crlc.errors import CrlcError
from crlc.workspace.run_analysis import RunAnalysis


def compare(first: RunAnalysis, second: RunAnalysis) -> Comparison:
    """How far two runs agree, which clusters go together, which images moved.

    Raises:
        CrlcError: they are of different data sets, or have no image in common.
    """
    if first.dataset.info.uid != second.dataset.info.uid:
        raise CrlcError(
            f"{first.run.id} is a run of {first.dataset.name!r} and {second.run.id} one of {second.dataset.name!r}. "
            "Only runs of the same data set can be compared."
        )
    return compare_runs(first.ids, first.clusters, second.ids, second.clusters)
