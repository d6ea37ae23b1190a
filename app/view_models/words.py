"""Words and text search of a view: loaded on first use, and again when further class probabilities were computed."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from app.background.tasks import get_task, start_task
from app.view_models.cluster_view import ClusterView, RunView
from crlc.arrays import FloatArray, ImageIds, IntArray
from crlc.backbone_catalogue import CATALOGUE
from crlc.data.dataset import ImageDataset
from crlc.data.imagenet_words import WORDS_ORIGIN
from crlc.formatting import shorten_middle
from crlc.paths import to_printable
from crlc.services.image_text import has_text_features
from crlc.services.search import ImageSearch, SearchResult, SearchScope
from crlc.services.search_matchers import FileMatcher, TextMatcher, WordMatcher, create_matchers
from crlc.services.words import ImageWords, SuggestedName, compute_missing_class_scores, has_missing_class_scores

_MAX_NAME_CHARACTERS = 24


class FoundImages(NamedTuple):
    """The result of a search by text or image, as a gallery shows it."""

    text: str
    """The text that was searched for; empty for an image."""

    result: SearchResult
    order: IntArray
    """Positions in the result by ascending image id."""

    are_similarities: bool = False
    """True if the scores are similarities to an image."""

    @classmethod
    def from_result(cls, text: str, result: SearchResult) -> FoundImages:
        """Return the result of a search for a text."""
        return cls(text, result, np.argsort(result.ids))

    @classmethod
    def from_similarities(cls, ids: ImageIds, similarity: FloatArray) -> FoundImages:
        """Return images with their similarity to an image, (k,) each."""
        no_reasons = np.zeros(len(ids), np.int64)
        return cls("", SearchResult(ids, similarity, (), no_reasons), np.argsort(ids), are_similarities=True)

    def format_caption(self, image_id: int) -> str | None:
        """Return the word and its probability, such as `building 99%`, or else why an image was found; safe text.

        `None` for an image that was found by its file name, which is its caption.
        """
        position = int(self.order[np.searchsorted(self.result.ids, image_id, sorter=self.order)])
        score = float(self.result.scores[position])
        if self.are_similarities:
            return f"similarity {score:.2f}"
        reason = self.result.reasons[int(self.result.reason_indices[position])]
        kind, _, name = reason.partition(": ")
        if kind in (WordMatcher.kind, TextMatcher.kind):  # the name, so that it does not look like a confidence
            return f"{shorten_middle(to_printable(name), _MAX_NAME_CHARACTERS)} {score:.0%}"
        return None if kind == FileMatcher.kind else to_printable(reason)


class _LoadedWords(NamedTuple):
    stamp: int
    """Changes whenever features or classes are written."""

    words: ImageWords | None
    search: ImageSearch


_loaded: WeakKeyDictionary[ClusterView, _LoadedWords] = WeakKeyDictionary()


def get_words(view: ClusterView) -> ImageWords | None:
    """Return the words for the images of a view; `None` if their classes are not computed."""
    return _load(view).words


def get_text_search(view: ClusterView) -> ImageSearch:
    """Return the search in the images of a view."""
    return _load(view).search


def describe_empty_search(view: ClusterView, text: str = "") -> str:
    """Return what to try after a search that found no image; safe text.

    Args:
        view: the view that was searched.
        text: the text; empty where the user still sees it.
    """
    nothing = f"No images found for {to_printable(text)}." if text else "No images found."
    if has_text_features(view.dataset):
        return nothing
    model = next(one for one in CATALOGUE if one.takes_text)
    how = "open Own words on the Clusters page" if isinstance(view, RunView) else f"train with {model.title}"
    return (
        f"{nothing} Enter a label, the name of a cluster or file, or a thing such as dog or vehicle. To search for any "
        f"other text, {how}."
    )


def suggest_names_for(view: ClusterView, ids: ImageIds) -> list[SuggestedName]:
    """Return the words with the most lift in some images of a view, the best first; empty without words."""
    words = get_words(view)
    return [] if words is None else words.suggest_for(view.find_rows(ids))


def describe_suggested_name(word: SuggestedName) -> str:
    """Return the scores of a word and its origin as a tooltip."""
    coverage = f"Mean probability {word.coverage:.0%} in these images"
    return f"{coverage}, {word.lift:.1f} times that in all images; {WORDS_ORIGIN}."


def _load(view: ClusterView) -> _LoadedWords:
    stamp = _compute_stamp(view.dataset)
    found = _loaded.get(view)
    if found is None or found.stamp != stamp:
        _complete_in_background(view.dataset)
        scope = SearchScope(view.dataset, view.ids, view.clusters, view.cluster_names, view.annotation_state)
        scores = scope.class_scores
        words = None if scores is None else ImageWords(scores, view.clusters)
        found = _loaded[view] = _LoadedWords(stamp, words, ImageSearch(scope, create_matchers(scope)))
    return found


def _compute_stamp(dataset: ImageDataset) -> int:
    """Return the time at which a file was last added to the features of a dataset; 0 without features."""
    folders = dataset.features_folder.glob("*/")
    return max((folder.stat().st_mtime_ns for folder in folders), default=0)


def _complete_in_background(dataset: ImageDataset) -> None:
    """Compute the classes of features that an earlier version stored; the words appear with the next click."""
    key = f"words-{dataset.folder}"
    task = get_task(key)
    if task is None and has_missing_class_scores(dataset):  # a failed task is not repeated
        start_task(key, "Words", lambda _: compute_missing_class_scores(dataset))
