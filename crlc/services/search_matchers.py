"""Kinds of search: by label, cluster name, word, file name and free text. Words are ranked by their probability."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from functools import cached_property, lru_cache
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.class_scores import ClassIndex, sum_classes
from crlc.data.image_lookup import iterate_readable_paths
from crlc.data.imagenet_words import CLASS_COUNT, load_word_table
from crlc.paths import from_printable
from crlc.services.image_text import ImageTextFeatures
from crlc.services.search import (
    NAME_RANK,
    PART_RANK,
    TEXT_RANK,
    WORD_RANK,
    Match,
    Matcher,
    SearchScope,
    SearchSuggestion,
)

MIN_PROBABILITY = 0.2
"""Images that show a word with a lower probability are not found."""

MAX_TEXT_RESULTS = 100
"""Number of images that a free text finds: it ranks all images, and has no natural threshold."""

_COMPLETED_NAMES = 3
_MAX_COMPLETED_PATHS = 10_000
"""Of more paths with a text, evenly spaced ones suggest names: 100,000 would take 0.3 s."""

_MAX_COUNTED_WORDS = 24
"""Words of which images are counted for the suggestions of one text: each takes about 1 ms with 100,000 images."""


def create_matchers(scope: SearchScope, min_probability: float = MIN_PROBABILITY) -> list[Matcher]:
    """Return all kinds of search; suggestions are listed in this order.

    Args:
        scope: the images to search.
        min_probability: lowest probability of a word in an image that is found.
    """
    return [
        LabelMatcher(scope),
        ClusterMatcher(scope),
        WordMatcher(scope, min_probability),
        FileMatcher(scope),
        TextMatcher(scope),
    ]


class LabelMatcher:
    """Finds images whose label contains a text."""

    kind = "label"

    def __init__(self, scope: SearchScope) -> None:
        """Store the scope."""
        self._scope = scope

    @cached_property
    def _codes(self) -> NDArray[np.int64]:
        return self._scope.annotations.get_label_codes(self._scope.ids)

    @cached_property
    def _names(self) -> dict[int, str]:
        names = self._scope.annotations.all_label_names
        return {code: names[code] for code in np.unique(self._codes[self._codes >= 0]).tolist()}

    def find(self, text: str) -> list[Match]:
        """Return the images of each label that contains the text."""
        return [
            self._scope.select(self._codes == code, f"label: {self._names[code]}")
            for code in _find_names(self._names, text)
        ]

    def suggest(self, text: str, limit: int) -> list[SearchSuggestion]:
        """Return the labels that contain the text."""
        codes = _complete_names(self._names, text)[:limit]
        return [
            _build_suggestion(self.kind, self._names[code], int((self._codes == code).sum()), text) for code in codes
        ]


class ClusterMatcher:
    """Finds images whose cluster has a name that contains a text."""

    kind = "cluster"

    def __init__(self, scope: SearchScope) -> None:
        """Store the scope."""
        self._scope = scope

    def find(self, text: str) -> list[Match]:
        """Return the images of each cluster whose name contains the text."""
        names = self._scope.cluster_names
        return [
            self._scope.select(self._scope.clusters == number, f"cluster: {number} {names[number]}")
            for number in _find_names(names, text)
        ]

    def suggest(self, text: str, limit: int) -> list[SearchSuggestion]:
        """Return the names of clusters that contain the text."""
        names = self._scope.cluster_names
        counted = (
            _build_suggestion(self.kind, names[number], int((self._scope.clusters == number).sum()), text)
            for number in _complete_names(names, text)[:limit]
        )
        return [one for one in counted if one.images]


class WordMatcher:
    """Finds images that show a word, with the summed probability of its classes."""

    kind = "word"

    def __init__(self, scope: SearchScope, min_probability: float = MIN_PROBABILITY) -> None:
        """Store the scope and the lowest probability of an image that is found."""
        self._scope, self._min_probability = scope, min_probability
        self._count_images = lru_cache(maxsize=512)(self._count_uncached_images)

    @cached_property
    def _index(self) -> ClassIndex | None:
        scores = self._scope.class_scores
        return None if scores is None else ClassIndex(scores, CLASS_COUNT)

    @cached_property
    def _mean_probabilities(self) -> NDArray[np.float64]:
        """Mean probability of each word in all images, (W,)."""
        assert self._scope.class_scores is not None
        classes = sum_classes(self._scope.class_scores, CLASS_COUNT)
        means: NDArray[np.float64] = load_word_table().membership @ classes / max(1, len(self._scope.ids))
        return means

    def find(self, text: str) -> list[Match]:
        """Return the images that show a word, by descending probability; all meanings of the word count."""
        table = load_word_table()
        indices = table.find(text)
        if self._index is None or not len(indices):
            return []
        probabilities = self._index.sum_probabilities(table.list_classes(indices))
        rows = np.flatnonzero(probabilities >= self._min_probability)
        rows = rows[np.argsort(-probabilities[rows], kind="stable")]
        names = ", ".join(table.words[index].name for index in indices.tolist())
        scores = np.minimum(probabilities[rows], 1).astype(np.float32)
        return [Match(f"{self.kind}: {names}", self._scope.ids[rows], scores, WORD_RANK)]

    def suggest(self, text: str, limit: int) -> list[SearchSuggestion]:
        """Return the words that start with the text and are in at least one image, the most frequent first."""
        if self._index is None:
            return []
        table = load_word_table()
        exact, started = table.find(text), table.complete(text)
        by_frequency = started[np.argsort(-self._mean_probabilities[started], kind="stable")]
        candidates = list(dict.fromkeys([*exact.tolist(), *by_frequency.tolist()]))[:_MAX_COUNTED_WORDS]
        found = (
            _build_suggestion(self.kind, table.words[index].name, self._count_images(index), text)
            for index in candidates
        )
        return [one for one in found if one.images][:limit]

    def _count_uncached_images(self, index: int) -> int:
        assert self._index is not None
        probabilities = self._index.sum_probabilities(load_word_table().list_classes(np.array([index])))
        return int((probabilities >= self._min_probability).sum())


class FileMatcher:
    """Finds images whose path contains a text."""

    kind = "file name"

    def __init__(self, scope: SearchScope) -> None:
        """Store the scope."""
        self._scope = scope

    @cached_property
    def _paths(self) -> list[str]:
        """Paths of the images of the scope; empty for an image that cannot be read any more."""
        paths = dict(iterate_readable_paths(self._scope.dataset))
        return [paths.get(number, "") for number in self._scope.ids.tolist()]

    @cached_property
    def _folded_paths(self) -> list[str]:
        return [path.casefold() for path in self._paths]

    def find(self, text: str) -> list[Match]:
        """Return the images whose path has the text as the name of a file or folder, and those that contain it."""
        wanted = from_printable(text)
        is_found = self._search(wanted)
        is_exact = np.zeros(len(is_found), np.bool_)
        for row in np.flatnonzero(is_found).tolist():
            is_exact[row] = _has_name(self._folded_paths[row], wanted.casefold())
        masks = ((is_exact, NAME_RANK), (is_found & ~is_exact, PART_RANK))
        return [self._scope.select(mask, f"{self.kind}: {text}", rank) for mask, rank in masks if mask.any()]

    def suggest(self, text: str, limit: int) -> list[SearchSuggestion]:
        """Return the text itself if some paths contain it, and names of folders and files that contain it."""
        wanted = from_printable(text)
        is_found = self._search(wanted)
        count = int(is_found.sum())
        names = self._complete(wanted.casefold(), np.flatnonzero(is_found))
        found = [(text, count), *((name, int(self._search(name).sum())) for name in names)]
        return [SearchSuggestion(self.kind, name, number) for name, number in found if number][:limit]

    def _search(self, text: str) -> NDArray[np.bool_]:
        wanted = text.casefold()
        return np.fromiter((wanted in path for path in self._folded_paths), np.bool_, len(self._folded_paths))

    def _complete(self, wanted: str, rows: NDArray[np.int64]) -> list[str]:
        """Return the names of folders or files that complete a text: those that start with it first, then by number."""
        counts: Counter[str] = Counter()
        for row in rows[:: -(-len(rows) // _MAX_COMPLETED_PATHS) or 1].tolist():
            folded, path = self._folded_paths[row], self._paths[row]
            if len(folded) != len(path):  # rare letters have another length in the other case: ß
                continue
            at = folded.index(wanted)
            end = folded.find("/", at + len(wanted))
            counts[path[folded.rfind("/", 0, at) + 1 : end if end >= 0 else None]] += 1
        return nsmallest(
            _COMPLETED_NAMES,
            (name for name in counts if name.casefold() != wanted),
            key=lambda name: (not name.casefold().startswith(wanted), -counts[name], name),
        )


class TextMatcher:
    """Finds the images that are most similar to a free text, if the dataset has features of an image-text model."""

    kind = "text"

    def __init__(self, scope: SearchScope) -> None:
        """Store the scope."""
        self._scope = scope

    @cached_property
    def _features(self) -> ImageTextFeatures | None:
        return ImageTextFeatures.find(self._scope.dataset, self._scope.ids)

    def find(self, text: str) -> list[Match]:
        """Return the most similar images.

        Raises:
            CrlcError: the text encoder of the model cannot be loaded.
        """
        if self._features is None:
            return []
        found = self._features.rank(text, MAX_TEXT_RESULTS)
        return [Match(f"{self.kind}: {text}", self._scope.ids[found.rows], found.probabilities, TEXT_RANK)]

    def suggest(self, text: str, limit: int) -> list[SearchSuggestion]:
        """Return the text itself: any text can be searched for."""
        if self._features is None or not limit:
            return []
        return [SearchSuggestion(self.kind, text, min(MAX_TEXT_RESULTS, len(self._features.rows)))]


def _has_name(path: str, name: str) -> bool:
    """Return whether a path has a file, with or without its suffix, or a folder of this name."""
    wanted = f"/{name.strip('/')}/"
    return any(wanted in f"/{one}/" for one in (path, os.path.splitext(path)[0]))


def _build_suggestion(kind: str, name: str, images: int, text: str) -> SearchSuggestion:
    return SearchSuggestion(kind, name, images, name.casefold() == text.casefold())


def _find_names(names: Mapping[int, str], text: str) -> list[int]:
    """Return the numbers whose name is a text, or else contains it; case is ignored."""
    wanted = text.casefold()
    exact = [number for number, name in names.items() if name.casefold() == wanted]
    return exact or [number for number, name in names.items() if wanted in name.casefold()]


def _complete_names(names: Mapping[int, str], text: str) -> list[int]:
    """Return the numbers whose name contains a text, names that start with it first; case is ignored."""
    wanted = text.casefold()
    found = [number for number, name in names.items() if wanted in name.casefold()]
    return sorted(found, key=lambda number: not names[number].casefold().startswith(wanted))
