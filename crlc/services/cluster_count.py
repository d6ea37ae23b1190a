"""Suggested number of clusters for a dataset, from its pixels or from pretrained features."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crlc.analysis.cluster_count import DEFAULT_MAX_CLUSTERS, ClusterCountSuggestion, suggest_cluster_count
from crlc.annotations.store import read_excluded_ids
from crlc.data.augmentation import choose_recipe
from crlc.data.dataset import ImageDataset
from crlc.progress import ProgressCallback, no_progress
from crlc.services.run_preparation import store_pixels
from crlc.services.vectors import find_usable_vectors
from crlc.training.frozen_features import load_frozen_features
from crlc.training.images import TrainingImages, exclude_ids, load_images, select_ids, select_positions
from crlc.training.network_builder import build_network
from crlc.training.presets import FROZEN_HEADS
from crlc.workspace.workspace import Workspace

CLEAR_STEP = 0.75
"""A curve with a clearness above this has an unambiguous step."""

_MAX_SEED_RATIO = 1.5
"""Seeds whose suggestions differ by more than this factor contradict each other."""

_MAX_IMAGES = 20_000
_RECIPE_SAMPLE_IMAGES = 64


@dataclass(frozen=True)
class SuggestedCount:
    """Suggested number of clusters, and the curve that it is based on."""

    count: ClusterCountSuggestion
    read_from: str
    """Description of the image features that the curve was computed from, for the user."""

    @property
    def is_clear(self) -> bool:
        """Whether the curve has an unambiguous step, and the seeds suggest similar numbers."""
        by_seed = self.count.suggestion_by_seed
        return self.count.clearness > CLEAR_STEP and max(by_seed) <= _MAX_SEED_RATIO * min(by_seed)

    @property
    def reason(self) -> str:
        """Sentence for the user that explains the suggestion and its range, or that there is no clear number."""
        count = self.count
        if not self.is_clear:
            return (
                "The images have no clear number of clusters: information grows steadily with each further cluster. "
                "Choose the number by purpose, and try several."
            )
        if count.lowest == count.highest:
            return f"Beyond {count.suggestion} clusters, a further one adds little information."
        return (
            f"Plausible are {count.lowest} to {count.highest}: up to {count.suggestion}, every cluster adds much "
            f"information; up to {count.highest}, repeated clusterings still find similar clusters."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the entry of run.json, which is also the output of `count --json`."""
        return {
            "suggestion": self.count.suggestion,
            "lowest": self.count.lowest,
            "highest": self.count.highest,
            "is_clear": self.is_clear,
            "reason": self.reason,
            "read_from": self.read_from,
            "counts": self.count.counts.tolist(),
            "information": self.count.information.round(5).tolist(),
            "added_share": self.count.added_fraction.round(5).tolist(),
            "agreement": self.count.agreement.round(5).tolist(),
            "clearness": round(self.count.clearness, 4),
            "by_cut": list(self.count.suggestion_by_seed),
        }


def suggest_for_dataset(
    workspace: Workspace,
    dataset: ImageDataset,
    device: torch.device,
    *,
    split: str | None = None,
    max_clusters: int = DEFAULT_MAX_CLUSTERS,
    report: ProgressCallback = no_progress,
) -> SuggestedCount:
    """Suggest a number of clusters for the images of a dataset that are not excluded.

    Args:
        workspace: workspace of the dataset. If the pretrained backbone needs larger images, they are stored in it.
        dataset: dataset to cluster.
        device: device that computes the features.
        split: splits to consider, joined by `+`; `None` for all images.
        max_clusters: highest number to try.
        report: receives progress.

    Raises:
        UsageError: there are too few images, or `max_clusters` is out of range.
    """
    images = exclude_ids(load_images(dataset, dataset.get_default_size(), split=split), read_excluded_ids(dataset))
    vectors = find_usable_vectors(dataset)
    if vectors is not None:
        found = _suggest_by_features(images, vectors.backbone, device, max_clusters=max_clusters, report=report)
        return SuggestedCount(found, "imported vectors")
    if not suits_pixels(images):
        size = FROZEN_HEADS.data.image_size
        dataset = store_pixels(workspace, dataset, size, report)
        images = select_ids(load_images(dataset, size, split=split), images.ids)
    return suggest_count(images, device, max_clusters=max_clusters, report=report)


def suits_pixels(images: TrainingImages) -> bool:
    """Return whether pixels describe the images better than features learned on photographs, e.g. for digits."""
    return choose_recipe(images.sample_pixels(_RECIPE_SAMPLE_IMAGES)) == "glyph"


def suggest_count(
    images: TrainingImages,
    device: torch.device,
    *,
    max_clusters: int = DEFAULT_MAX_CLUSTERS,
    seed: int = 0,
    report: ProgressCallback = no_progress,
) -> SuggestedCount:
    """Suggest a number of clusters for images in memory or in a pixel store.

    Args:
        images: simple grey images in any size, other images in the size that the default backbone needs.
        device: device that computes the features.
        max_clusters: highest number to try.
        seed: seed of k-means.
        report: receives progress.

    Raises:
        UsageError: there are too few images, or `max_clusters` is out of range.
    """
    if suits_pixels(images):
        pixels = compute_pixel_vectors(_select_sample(images))
        return SuggestedCount(
            suggest_cluster_count(pixels, max_clusters=max_clusters, seed=seed, report=report),
            "pixel values, because the images are small and grey",
        )
    found = _suggest_by_features(
        images, FROZEN_HEADS.model.backbone, device, max_clusters=max_clusters, seed=seed, report=report
    )
    return SuggestedCount(found, "pretrained image features")


def _select_sample(images: TrainingImages) -> TrainingImages:
    count = min(len(images), _MAX_IMAGES)
    return select_positions(images, np.linspace(0, len(images) - 1, count).astype(np.int64))


def _suggest_by_features(
    images: TrainingImages,
    backbone: str,
    device: torch.device,
    *,
    max_clusters: int,
    seed: int = 0,
    report: ProgressCallback,
) -> ClusterCountSuggestion:
    """Suggest a number of clusters from the features of a backbone, or from imported vectors."""
    sample = _select_sample(images)
    settings = FROZEN_HEADS.replace(image_size=images.size, backbone=backbone)
    built = build_network(settings, len(sample))
    built.network.to(device)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        vectors = load_frozen_features(
            built, sample, settings, Path(folder, "vectors.npy"), fit=True, report=report
        ).vectors
        return suggest_cluster_count(vectors, max_clusters=max_clusters, seed=seed, report=report)


def compute_pixel_vectors(images: TrainingImages) -> NDArray[np.float32]:
    """Return grey pixels, centred and of unit length, (N, size²)."""
    pixels = images.read_pixels(np.arange(len(images)))[..., 0].flatten(1).float()
    centred = pixels - pixels.mean(dim=0)
    vectors: NDArray[np.float32] = torch.nn.functional.normalize(centred, dim=1).numpy()
    return vectors
