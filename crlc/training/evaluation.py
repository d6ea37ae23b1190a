"""Measuring clusters: without classes how subheads agree, with them ACC, NMI and ARI. For reporting only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.agreement import agreement, mean_pairwise_nmi
from crlc.analysis.with_classes import five_best_accuracy
from crlc.training.assign import Assignments

_AGREEMENT_IMAGES = 2_000
_MANY_CLUSTERS = 50


def measured(seen: Assignments, classes: NDArray[np.int64] | None, *, final: bool) -> dict[str, Any]:
    """The metrics of one look at the clusters.

    Args:
        seen: what the network says.
        classes: of the same images, -1 where unknown; none where none is known.
        final: whether to report every subhead by itself too.
    """
    by_subhead = np.asarray(seen.by_subhead).T
    report: dict[str, Any] = {"subhead_agreement": mean_pairwise_nmi(by_subhead[:, :_AGREEMENT_IMAGES])}
    if classes is None:
        return report
    found = agreement(np.asarray(seen.cluster), classes)
    if found is not None:
        report.update(found._asdict())
    if found is not None and seen.q.shape[1] >= _MANY_CLUSTERS:
        report["acc5"] = five_best_accuracy(seen.q, np.asarray(seen.cluster), classes)
    if final:
        each = (agreement(clusters, classes) for clusters in by_subhead)
        report["acc_by_subhead"] = [round(one.acc, 4) for one in each if one is not None]
    return report
