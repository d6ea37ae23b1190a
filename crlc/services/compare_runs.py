"""Comparison of two runs of one dataset on their common images."""

from __future__ import annotations

from crlc.analysis.comparison import Comparison, compare_clusterings
from crlc.errors import CrlcError
from crlc.services.analyse_run import RunAnalysis


def compare_runs(first: RunAnalysis, second: RunAnalysis) -> Comparison:
    """Compute the agreement of two runs, their matching clusters and the reassigned images.

    Raises:
        CrlcError: the runs have different datasets, or no image in common.
    """
    if first.dataset.info.uid != second.dataset.info.uid:
        raise CrlcError(
            f"{first.run.id} is a run of {first.dataset.name!r} and {second.run.id} one of {second.dataset.name!r}: "
            "only runs of the same dataset can be compared."
        )
    return compare_clusterings(first.ids, first.clusters, second.ids, second.clusters)
