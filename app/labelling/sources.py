"""Which images come next on the Label page: suggested ones, those a person chose, or the least sure of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.exploring.subject import DatasetSubject, RunSubject, Subject
from crlc.analysis.labelling import images_to_label
from crlc.analysis.quality import ImageQuality
from crlc.workspace.curation import Curation

SUGGESTED, SELECTION, CLUSTER = "suggested", "selection", "cluster"
FIRST, MORE = 36, 24
_FEWEST_AHEAD = 14
_MOST = 2000
"""Images in a row; nobody decides about more in one sitting."""

_AHEAD, _BEHIND = 28, 8
_FIRST_OF_CLUSTER = "first of its cluster"
Ids = NDArray[np.int64]


@dataclass
class Row:
    """The images to decide about, in their order; some may be decided already."""

    ids: list[int] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)
    """Why an image was suggested."""

    left: int = 0
    """Images that were wanted but are not in the row, as it is long enough."""

    def around(self, at: int | None) -> list[int]:
        """The images near one of them: those that the browser must have at hand."""
        place = self.ids.index(at) if at in self.ids else 0
        return self.ids[max(0, place - _BEHIND) : place + _AHEAD]


def suggested(subject: Subject, curation: Curation, left_out: Collection[int], count: int) -> Row:
    """Images that teach most: some of every cluster, unlike each other, doubtful ones as labels become more.

    Before any training there is no doubt to go by: images near the middle of each provisional cluster, then others
    unlike those.

    Args:
        subject: whose images.
        curation: what is labelled and excluded by now.
        left_out: images that are not wanted, such as those in the row already.
        count: how many at most.
    """
    labelled = curation.has_label(subject.ids)
    # Those in the row count as labelled: what comes after them is to be unlike them.
    known = labelled | np.isin(subject.ids, np.fromiter(left_out, np.int64, len(left_out)))
    out = curation.is_excluded(subject.ids)
    if (known | out).all():
        return Row()
    vectors, quality = _known_of(subject)
    found = images_to_label(vectors, subject.clusters, quality, count, labelled=known, left_out=out)
    ids, reasons = subject.ids[found.rows].tolist(), found.reasons
    if subject.confidence is None:  # nobody knows then what lies between two clusters
        reasons = tuple(reason if reason == _FIRST_OF_CLUSTER else "unlike those before" for reason in reasons)
    return Row(ids, dict(zip(ids, reasons, strict=True)))


def of_selection(subject: Subject, ids: Ids, *, is_ordered: bool) -> Row:
    """Images that a person chose: in their own order, or the least sure first."""
    rows = subject.rows_of(ids if is_ordered else np.sort(ids))
    if not is_ordered:
        rows = subject.ordered(rows, doubtful_order(subject))
    return _shortened(subject, rows)


def of_cluster(subject: Subject, cluster: int) -> Row:
    """The images of a cluster, least sure first; before training those far from its middle."""
    rows = np.flatnonzero(subject.clusters == cluster)
    return _shortened(subject, subject.ordered(rows, doubtful_order(subject)))


def doubtful_order(subject: Subject) -> str:
    """The order in which images come that a person should look at first."""
    return "least sure" if isinstance(subject, RunSubject) else "odd"


def refilled(row: Row, at: int | None, subject: Subject, curation: Curation, skipped: Collection[int]) -> bool:
    """Add suggestions when few are left ahead.

    Returns:
        whether there are more now.
    """
    place = row.ids.index(at) if at in row.ids else -1
    ahead = undecided(row.ids[place + 1 :], curation, skipped)
    if len(ahead) >= _FEWEST_AHEAD:
        return False
    more = suggested(subject, curation, {*row.ids, *skipped}, MORE)
    row.ids += more.ids
    row.reasons |= more.reasons
    return bool(more.ids)


def undecided(ids: Sequence[int], curation: Curation, skipped: Collection[int]) -> list[int]:
    """Those that have no label, are not excluded and were not skipped."""
    if not ids:
        return []
    given = np.asarray(ids, np.int64)
    open_ = ~(curation.has_label(given) | curation.is_excluded(given))
    return [image for image in given[open_].tolist() if image not in skipped]


def says_the_same(kept: Subject | None, now: Subject) -> bool:
    """Whether an older state of a subject will do: the same result, clusters and names, but for images excluded since.

    Comparing all images with their neighbours takes long; that one image is excluded is no reason to do it again.
    """
    if kept is None or type(kept) is not type(now) or kept._source != now._source or kept.names != now.names:
        return False
    rows = kept.rows_of(now.ids)
    return len(rows) == len(now.ids) and np.array_equal(kept.clusters[rows], now.clusters)


def merged_names(kept: Sequence[str], clusters: Mapping[int, str], used: Mapping[str, int]) -> list[str]:
    """Names to choose from. Those known stay where they are, as keys stand for places; new ones come after them.

    Args:
        kept: names so far, in their order.
        clusters: names of clusters: they come first.
        used: labels in use.
    """
    named = [clusters[number] for number in sorted(clusters)]
    return list(dict.fromkeys([*kept, *named, *used]))


def _shortened(subject: Subject, rows: Ids) -> Row:
    return Row(subject.ids[rows[:_MOST]].tolist(), left=max(0, len(rows) - _MOST))


@lru_cache(maxsize=2)
def _known_of(subject: Subject) -> tuple[NDArray[np.float32], ImageQuality]:
    if isinstance(subject, RunSubject):
        return subject.analysis.z, subject.quality().images
    assert isinstance(subject, DatasetSubject)
    exploration = subject.exploration
    kept = np.isin(exploration.ids, subject.ids)
    ones = np.ones(len(subject.ids), np.float32)
    near = -exploration.distance[kept]
    quality = ImageQuality(ones, subject.clusters, 0 * ones, ones, ones, None, ones, near, ones)
    return exploration.vectors if kept.all() else exploration.vectors[kept], quality
