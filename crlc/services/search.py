"""Search for images of a run or an untrained dataset: by label, cluster name, file name and word.

A search uses several matchers, each of which returns ids, scores and a reason. A further kind of search, such as free
text with an image-text model, is a class with the methods of `Matcher` and its entry in `create_matchers`
(`crlc/services/search_matchers.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crlc.annotations.state import AnnotationState
from crlc.annotations.store import read_annotations
from crlc.arrays import FloatArray, ImageIds, IntArray
from crlc.data.dataset import ImageDataset
from crlc.data.feature_shards import ClassScores
from crlc.errors import NotFoundError, UsageError
from crlc.services.analyse_run import RunAnalysis
from crlc.services.exploration import read_exploration
from crlc.services.words import read_class_scores
from crlc.workspace.workspace import Workspace

MAX_SUGGESTIONS = 8
NAME_RANK, WORD_RANK, PART_RANK, TEXT_RANK = range(4)
"""Order of matches: names that the user gave, words, parts of paths, and free text, which finds any image."""


class Match(NamedTuple):
    """Images that a matcher found, the best first."""

    reason: str
    """Why they were found, such as `word: dog`; for people."""

    ids: ImageIds
    scores: FloatArray
    """From 0 to 1, in the order of the ids: 1 for a text that is contained, a probability for a word."""

    rank: int = NAME_RANK
    """Images of a match with a lower rank are listed first, whatever their score."""


class SearchSuggestion(NamedTuple):
    """A completion of a text, and the number of images that it finds."""

    kind: str
    """Kind of the matcher that finds it."""

    text: str
    """Text that the matcher finds."""

    images: int
    is_exact: bool = False
    """Whether the text is the name of something, not only a part of it."""


class Matcher(Protocol):
    """One kind of search."""

    kind: str
    """Short noun for people: `word`."""

    def find(self, text: str) -> list[Match]:
        """Return the images that a text finds."""
        ...

    def suggest(self, text: str, limit: int) -> list[SearchSuggestion]:
        """Return completions of a text that find images, the best first."""
        ...


class SearchResult(NamedTuple):
    """All images that a search found, the best first; each image is listed once, with its best match."""

    ids: ImageIds
    scores: FloatArray
    reasons: tuple[str, ...]
    reason_indices: IntArray
    """Index of the reason of each image."""


@dataclass(frozen=True)
class SearchScope:
    """Images to search, with the clusters, names and labels that they have now."""

    dataset: ImageDataset
    ids: ImageIds
    """Ascending."""

    clusters: NDArray[np.int64]
    cluster_names: Mapping[int, str]
    annotations: AnnotationState

    @classmethod
    def from_run(cls, analysis: RunAnalysis) -> SearchScope:
        """Return the images of a run that are not left out."""
        return cls(analysis.dataset, analysis.ids, analysis.clusters, analysis.names, analysis.annotations)

    @classmethod
    def from_dataset(cls, dataset: ImageDataset) -> SearchScope:
        """Return the images of an untrained dataset that are not excluded, with its provisional clusters.

        Raises:
            NotFoundError: the dataset was not explored.
        """
        exploration = read_exploration(dataset)
        if exploration is None:
            raise NotFoundError(f"The dataset {dataset.name} was not explored.", advice="Explore it first.")
        annotations = read_annotations(dataset)
        kept = ~annotations.is_excluded(exploration.ids)
        return cls(dataset, exploration.ids[kept], exploration.clusters[kept], {}, annotations)

    @cached_property
    def class_scores(self) -> ClassScores | None:
        """The most probable classes of each image, (N, K); `None` if they are not computed."""
        return read_class_scores(self.dataset, self.ids)

    def select(self, is_found: NDArray[np.bool_], reason: str, rank: int = NAME_RANK) -> Match:
        """Return a match of the images of a mask, all with score 1."""
        ids = self.ids[is_found]
        return Match(reason, ids, np.ones(len(ids), np.float32), rank)


class ImageSearch:
    """Search in one scope. What the matchers read from disk is read once."""

    def __init__(self, scope: SearchScope, matchers: Sequence[Matcher]) -> None:
        """Store the images to search, and the kinds of search: usually those of `create_matchers`."""
        self.scope, self.matchers = scope, matchers

    def search(self, text: str, kind: str | None = None) -> SearchResult:
        """Return the images that a text finds, the best first.

        Args:
            text: the text, in any case.
            kind: kind of the only matcher to use; `None` for all.

        Raises:
            UsageError: the text is empty, or the kind is unknown.
        """
        text = " ".join(text.split())
        if not text:
            raise UsageError(
                "The text to search for is empty.", advice="Enter a word, a name or a part of a file name."
            )
        kinds = [matcher.kind for matcher in self.matchers]
        if kind is not None and kind not in kinds:
            raise UsageError(f"Searching only {kind!r} is not possible. There are: {', '.join(kinds)}.")
        chosen = [matcher for matcher in self.matchers if kind in (None, matcher.kind)]
        return combine_matches([match for matcher in chosen for match in matcher.find(text)])

    def suggest(self, text: str, limit: int = MAX_SUGGESTIONS) -> list[SearchSuggestion]:
        """Return completions of a text that find images: exact ones first, in the order of the matchers.

        Each matcher has a turn in which it adds its next best one, so that none of them fills the list.
        """
        text = " ".join(text.split())
        if not text:
            return []
        found = [matcher.suggest(text, limit) for matcher in self.matchers]
        turns = sorted((turn, number) for number, same in enumerate(found) for turn in range(len(same)))
        kept = [found[number][turn] for number, turn in sorted((number, turn) for turn, number in turns[:limit])]
        return sorted(kept, key=lambda one: not one.is_exact)  # stable


def combine_matches(matches: Sequence[Match]) -> SearchResult:
    """Return all images of some matches by rank, then by descending score.

    An image that several matches have keeps the first one.
    """
    if not matches:
        empty = np.empty(0, np.int64)
        return SearchResult(empty, np.empty(0, np.float32), (), empty)
    ids = np.concatenate([match.ids for match in matches])
    scores = np.concatenate([match.scores for match in matches])
    reasons = np.repeat(np.arange(len(matches)), [len(match.ids) for match in matches])
    ranks = np.repeat([match.rank for match in matches], [len(match.ids) for match in matches])
    order = np.lexsort((-scores, ranks))  # stable
    _, first = np.unique(ids[order], return_index=True)
    kept = order[np.sort(first)]
    return SearchResult(ids[kept], scores[kept], tuple(match.reason for match in matches), reasons[kept])


def open_search_scope(workspace: Workspace, name: str) -> SearchScope:
    """Return the scope of a run, given by id, unique prefix or `last`, or of an explored dataset, given by name.

    Raises:
        CrlcError: neither exists, or it cannot be searched.
    """
    if name in workspace.list_dataset_names():
        return SearchScope.from_dataset(workspace.open_dataset(name))
    return SearchScope.from_run(RunAnalysis.open(workspace, name))
