"""How many clusters to ask for: read from features that are there or quickly had."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crlc.analysis.cluster_count import MOST_CLUSTERS, ClusterCount, suggest_cluster_count
from crlc.data.augment import suitable_recipe
from crlc.progress import ProgressCallback, no_progress
from crlc.training.images import TrainingImages, at_positions
from crlc.training.materials import build_network, frozen_inputs
from crlc.training.presets import FROZEN_HEADS

_MOST_IMAGES = 20_000
_SAMPLED = 64


@dataclass(frozen=True)
class SuggestedCount:
    """A number of clusters, the curve, and what it was read from."""

    count: ClusterCount
    read_from: str
    """In words."""

    def to_json(self) -> dict[str, Any]:
        """For run.json, and for a page that shows the curve."""
        return {
            "suggestion": self.count.suggestion,
            "read_from": self.read_from,
            "counts": self.count.counts.tolist(),
            "information": self.count.information.round(5).tolist(),
            "added_share": self.count.added_share.round(5).tolist(),
            "clearness": round(self.count.clearness, 4),
            "by_cut": list(self.count.by_cut),
        }


def wants_pixels(images: TrainingImages) -> bool:
    """Whether the images are so simple that their pixels say more than a network trained on photographs."""
    return suitable_recipe(images.sample(_SAMPLED)) == "glyph"


def suggested_count(
    images: TrainingImages,
    device: torch.device,
    *,
    most: int = MOST_CLUSTERS,
    seed: int = 0,
    report: ProgressCallback = no_progress,
) -> SuggestedCount:
    """Suggest a number of clusters.

    Args:
        images: small grey ones at any size, others at the size of the default backbone.
        device: where to compute.
        most: the highest number to try.
        seed: of the cuts.
        report: told how far it is.

    Raises:
        UsageError: too few images, or a range that cannot be tried.
    """
    few = at_positions(images, np.linspace(0, len(images) - 1, min(len(images), _MOST_IMAGES)).astype(np.int64))
    if wants_pixels(images):
        return SuggestedCount(
            suggest_cluster_count(_pixel_vectors(few), most=most, seed=seed, report=report),
            "the pixels, as the images are small and grey",
        )
    settings = replace(FROZEN_HEADS, image_size=images.size)
    built = build_network(settings, len(few))
    built.network.to(device)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        vectors = frozen_inputs(built, few, settings, Path(place, "vectors.npy"), fit=True, report=report).vectors
        count = suggest_cluster_count(vectors, most=most, seed=seed, report=report)
    return SuggestedCount(count, "features of the default pretrained backbone")


def _pixel_vectors(images: TrainingImages) -> NDArray[np.float32]:
    """Grey pixels, centred and of unit length, (N, size²)."""
    pixels = images.pixels(np.arange(len(images)))[..., 0].flatten(1).float()
    centred = pixels - pixels.mean(dim=0)
    vectors: NDArray[np.float32] = torch.nn.functional.normalize(centred, dim=1).numpy()
    return vectors
