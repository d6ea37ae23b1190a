"""Suggested merges and splits of clusters: the reason in words, images of both sides, and what the user dismissed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.view_models.cluster_view import MOST_TYPICAL, RowIndices, RunView
from crlc.analysis.merge_split import MergeSuggestion, SplitSuggestion
from crlc.clusters.dismissed_suggestions import Dismissal, dismiss_suggestion, read_dismissals, restore_suggestions

_MAX_SUGGESTIONS = 200
"""Number of suggestions of each kind that are computed; dismissed ones do not hide later ones."""

_CLEAR_SEPARATION = 0.7
_MIN_REPORTED_PROBABILITY = 0.05
IMAGES_PER_SIDE = 8


class SuggestedEdit(NamedTuple):
    """Two clusters that could be merged, or one that could be split."""

    clusters: tuple[int, ...]
    """One cluster for a split, two for a merge."""

    sizes: tuple[int, ...]
    """Number of images of each cluster."""

    reason: str
    evidence: str
    """The measure behind the reason."""

    sides: tuple[RowIndices, RowIndices]
    """Some images of each of the two clusters, or of each part."""


def list_suggestions(view: RunView, limit: int) -> tuple[list[SuggestedEdit], int]:
    """Return the suggestions for a run, merges first.

    Args:
        view: the run.
        limit: maximum number of merges, and of splits.

    Returns:
        The suggestions that the user has not dismissed, and the number of dismissed ones.
    """
    merges, splits = view.suggest_edits(_MAX_SUGGESTIONS)
    sizes = np.bincount(view.clusters, minlength=max(view.cluster_numbers, default=0) + 1)
    dismissed = read_dismissals(view.analysis.run, view.analysis.clustering.result)

    def is_dismissed(*clusters: int) -> bool:
        return _find_dismissal(dismissed, clusters, sizes[list(clusters)]) is not None

    open_merges = [one for one in merges if not is_dismissed(one.first, one.second)]
    open_splits = [one for one in splits if not is_dismissed(one.cluster)]
    hidden = len(merges) + len(splits) - len(open_merges) - len(open_splits)
    found = [_describe_merge(view, one) for one in open_merges[:limit]]
    return found + [_describe_split(view, one, int(sizes[one.cluster])) for one in open_splits[:limit]], hidden


def dismiss(view: RunView, suggestion: SuggestedEdit) -> None:
    """Hide a suggestion, also after a restart."""
    dismiss_suggestion(view.analysis.run, view.analysis.clustering.result, suggestion.clusters, suggestion.sizes)


def restore_dismissed(view: RunView) -> None:
    """Show all dismissed suggestions again."""
    restore_suggestions(view.analysis.run, view.analysis.clustering.result)


def _find_dismissal(dismissed: list[Dismissal], clusters: tuple[int, ...], sizes: RowIndices) -> Dismissal | None:
    return next((one for one in dismissed if one.matches(clusters, sizes.tolist())), None)


def _describe_merge(view: RunView, one: MergeSuggestion) -> SuggestedEdit:
    small, other = (one.first, one.second) if one.first_size <= one.second_size else (one.second, one.first)
    near = view.compute_quality().pairs.links[small].astype(np.float64)
    fractions = near / max(1.0, near.sum())  # of the nearest images of the smaller cluster, by their cluster
    # Seen from the smaller cluster: of a large one, few images are near a small one, however similar the two are.
    expected = (fractions[small] + fractions[other]) * max(one.first_size, one.second_size)
    reason = (
        f"Of the images nearest to those of {view.format_cluster(small)}, {fractions[other]:.0%} are in "
        f"{view.format_cluster(other)}. If the two were one group, it would be about "
        f"{expected / (one.first_size + one.second_size):.0%}."
    )
    names = {view.cluster_names.get(number) for number in (one.first, one.second)}
    if len(names) == 1 and None not in names:
        reason = f"Both have the same name. {reason}"
    if one.shared >= _MIN_REPORTED_PROBABILITY:
        reason += f" The model gives the other cluster a probability of {one.shared:.0%} on average."
    return SuggestedEdit(
        (one.first, one.second),
        (one.first_size, one.second_size),
        reason,
        f"Overlap {one.mixing:.2f}: from 0 (no image has a neighbour in the other cluster) to 1 (as one cluster).",
        (_select_typical_rows(view, one.first), _select_typical_rows(view, one.second)),
    )


def _describe_split(view: RunView, one: SplitSuggestion, size: int) -> SuggestedEdit:
    apart = "clearly apart" if one.separation >= _CLEAR_SEPARATION else "apart"
    reason = (
        f"Its images form two groups of about {one.sizes[0]:,} and {one.sizes[1]:,}, {apart}: "
        f"{1 - one.crossing:.0%} of the nearest images are in the same group."
    )
    evidence = f"Separation {one.separation:.2f}: from 0 (one group) to 1 (two groups far apart)."
    first, second = one.examples
    return SuggestedEdit(
        (one.cluster,),
        (size,),
        reason,
        evidence,
        (_select_similar_rows(view, first), _select_similar_rows(view, second)),
    )


def _select_typical_rows(view: RunView, cluster: int) -> RowIndices:
    return view.sort_rows(np.flatnonzero(view.clusters == cluster), MOST_TYPICAL)[:IMAGES_PER_SIDE]


def _select_similar_rows(view: RunView, image_id: int) -> RowIndices:
    """Return an image and those nearest to it in its cluster."""
    row = view.find_row(image_id)
    near = view.find_nearest(row, 4 * IMAGES_PER_SIDE).rows
    similar = near[view.clusters[near] == view.clusters[row]][: IMAGES_PER_SIDE - 1]
    return np.concatenate([[row], similar])
