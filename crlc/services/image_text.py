"""Free text for images: search and name suggestions with an image-text model whose features a dataset has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crlc.analysis.class_scores import find_cluster_words
from crlc.analysis.normalization import normalize_rows
from crlc.arrays import DoubleArray, FloatArray, ImageIds, IntArray, LabelArray
from crlc.backbone_catalogue import OPEN_CLIP_PREFIX
from crlc.data.feature_shards import FeatureCache, build_feature_keys
from crlc.data.feature_source import FeatureSource, find_feature_sources, write_feature_source
from crlc.errors import NotFoundError, UsageError
from crlc.progress import ProgressCallback, no_progress
from crlc.services.words import WORDS_PER_CLUSTER, SuggestedName

if TYPE_CHECKING:
    import torch

    from crlc.data.dataset import ImageDataset
    from crlc.model.image_text import TextEncoder
    from crlc.workspace.workspace import Workspace

_PROMPTS = ("{}", "a photo of {}")
"""A text is compared as it is and as a caption; the mean of both is less sensitive to wording."""

_NEUTRAL_TEXTS = ("a photo", "an image of something")
"""Describe every image: a text must be more similar to an image than they are."""

_ROWS_PER_BATCH = 8192
_MAX_LOGIT = 50.0
MIN_WORDS = 2
MAX_WORDS = 2000


class RankedImages(NamedTuple):
    """Images that a text describes best, the best first."""

    rows: IntArray
    probabilities: FloatArray
    """Probability of the text instead of a text that describes every image, from 0 to 1."""


class ImageTextFeatures:
    """Vectors of images in the space of an image-text model; its text encoder is loaded on first use."""

    def __init__(self, source: FeatureSource, rows: IntArray, vectors: NDArray[np.float16]) -> None:
        """Store the vectors.

        Args:
            source: the model.
            rows: indices of the images that have vectors, ascending.
            vectors: their unit vectors, (n, d).
        """
        self.source, self.rows, self._vectors = source, rows, vectors

    @classmethod
    def find(cls, dataset: ImageDataset, ids: ImageIds) -> ImageTextFeatures | None:
        """Return the vectors of the model that has most of the images; `None` if no model has any of them.

        Args:
            dataset: dataset of the images.
            ids: ids of the images.
        """
        sources = find_feature_sources(dataset.features_folder)
        if not sources:
            return None
        keys = build_feature_keys(ids, dataset.read_content_versions(ids))
        caches = [(FeatureCache(folder), source) for folder, source in sources.items()]
        cache, source = max(caches, key=lambda one: int(one[0].contains(keys).sum()))
        rows = np.flatnonzero(cache.contains(keys))
        if not len(rows):
            return None
        parts = [
            normalize_rows(cache.read(keys[rows[start : start + _ROWS_PER_BATCH]])).astype(np.float16)
            for start in range(0, len(rows), _ROWS_PER_BATCH)
        ]
        return cls(source, rows, np.concatenate(parts))

    @property
    def _encoder(self) -> TextEncoder:
        from crlc.model.image_text import load_text_encoder

        return load_text_encoder(*self.source)

    def rank(self, text: str, limit: int) -> RankedImages:
        """Return the images that a text describes best, compared with texts that describe every image.

        Raises:
            CrlcError: the text encoder cannot be loaded.
        """
        scores = self._compute_logits([text, *_NEUTRAL_TEXTS])
        # Relative to neutral texts, since some images are similar to every text.
        advantage = scores[0] - scores[1:].max(axis=0)
        best = np.argsort(-advantage, kind="stable")[:limit]
        probabilities = 1 / (1 + np.exp(np.clip(-advantage[best], -_MAX_LOGIT, _MAX_LOGIT)))
        return RankedImages(self.rows[best], probabilities.astype(np.float32))

    def compute_probabilities(self, words: Sequence[str]) -> FloatArray:
        """Return the probability of each word in each image that has a vector, (n, W); the sum over words is 1.

        Raises:
            CrlcError: the text encoder cannot be loaded.
        """
        logits = self._compute_logits(words)
        weights = np.exp(logits - logits.max(axis=0))
        return np.asarray((weights / weights.sum(axis=0)).T, np.float32)

    def _compute_logits(self, texts: Sequence[str]) -> FloatArray:
        """Return the scaled similarity of each text with each image, (T, n)."""
        encoder = self._encoder
        prompts = [encoder.encode([prompt.format(text) for text in texts]) for prompt in _PROMPTS]
        vectors = normalize_rows(np.mean(prompts, axis=0))
        batches = [
            vectors @ self._vectors[start : start + _ROWS_PER_BATCH].astype(np.float32).T
            for start in range(0, len(self._vectors), _ROWS_PER_BATCH)
        ]
        return np.asarray(encoder.scale * np.concatenate(batches, axis=1), np.float32)


class OwnWords:
    """Name suggestions from a list of words of the user."""

    def __init__(self, features: ImageTextFeatures, clusters: LabelArray, words: Sequence[str]) -> None:
        """Store the words.

        Args:
            features: vectors of the images.
            clusters: cluster of each image, (N,).
            words: the words, from `parse_words`.
        """
        self._features, self._clusters, self._words = features, clusters[features.rows], words

    @cached_property
    def by_cluster(self) -> dict[int, list[SuggestedName]]:
        """The words with the most lift in each cluster with images, the best first.

        Raises:
            CrlcError: the text encoder cannot be loaded.
        """
        probabilities = self._features.compute_probabilities(self._words).astype(np.float64)
        numbers = np.unique(self._clusters[self._clusters >= 0])
        sums: DoubleArray = np.stack([probabilities[self._clusters == number].sum(axis=0) for number in numbers])
        sizes = np.array([int((self._clusters == number).sum()) for number in numbers])
        each = np.eye(len(self._words), dtype=np.bool_)
        found = find_cluster_words(sums, sizes, each, WORDS_PER_CLUSTER)
        return {
            int(number): [SuggestedName(self._words[one.word], one.coverage, one.lift) for one in best]
            for number, best in zip(numbers, found, strict=True)
        }


def parse_words(text: str) -> list[str]:
    """Return the words of a list, separated by commas, semicolons or lines; each is listed once.

    Raises:
        UsageError: there are too few or too many words.
    """
    words = list(dict.fromkeys(word for part in re.split(r"[,;\n]", text) if (word := " ".join(part.split()))))
    if not MIN_WORDS <= len(words) <= MAX_WORDS:
        raise UsageError(
            f"{len(words):,} words are not allowed: give {MIN_WORDS} to {MAX_WORDS:,}, for example cat, dog."
        )
    return words


def has_text_features(dataset: ImageDataset) -> bool:
    """Return whether the features of an image-text model were computed for images of a dataset."""
    return bool(find_feature_sources(dataset.features_folder))


def require_text_features(dataset: ImageDataset, ids: ImageIds) -> ImageTextFeatures:
    """Return the vectors of images in the space of an image-text model.

    Raises:
        NotFoundError: they were not computed.
    """
    found = ImageTextFeatures.find(dataset, ids)
    if found is None:
        raise NotFoundError(
            f"The dataset {dataset.name} has no features of an image-text model.",
            advice="Compute them first, with a backbone whose name begins with open_clip/.",
        )
    return found


def compute_text_features(
    workspace: Workspace,
    dataset: ImageDataset,
    source: FeatureSource,
    *,
    device: torch.device,
    report: ProgressCallback = no_progress,
) -> int:
    """Compute the features of an image-text model for all images of a dataset, and store them with the dataset.

    Args:
        workspace: workspace of the dataset. If the model's image size is not stored yet, it is imported.
        dataset: the dataset.
        source: the model.
        device: device of the model.
        report: receives the progress.

    Returns:
        The number of images whose features were computed; the others were cached already.

    Raises:
        UsageError: the backbone is no image-text model, or unknown.
        SourceError: its weights are missing and cannot be downloaded, or are damaged.
    """
    from crlc.model.pretrained import load_pretrained
    from crlc.services.run_preparation import store_pixels
    from crlc.training.feature_cache import count_missing_features, get_feature_set_folder, load_or_compute_features
    from crlc.training.images import load_images
    from crlc.training.network_builder import build_network
    from crlc.training.presets import FROZEN_HEADS

    if not source.backbone.startswith(OPEN_CLIP_PREFIX):
        raise UsageError(
            f"backbone={source.backbone!r} is no image-text model.",
            advice=f"Choose one that begins with {OPEN_CLIP_PREFIX}.",
        )
    size = load_pretrained(*source).image_size
    dataset = store_pixels(workspace, dataset, size, report)
    images = load_images(dataset, size)
    built = build_network(
        FROZEN_HEADS.replace(backbone=source.backbone, weights=source.weights, image_size=size), len(images)
    )
    missing = count_missing_features(images, built.identity)
    if missing:
        load_or_compute_features(
            built.network.to(device), images, built.identity, dataset.features_folder, engine="auto", report=report
        )
    write_feature_source(get_feature_set_folder(dataset.features_folder, built.identity, size), source)
    return missing
