"""Features of the default backbone, computed ahead of their first use."""

from __future__ import annotations

import torch

from crlc.data.dataset import ImageDataset
from crlc.data.options import PHOTOGRAPH_SIZE
from crlc.progress import ProgressCallback, no_progress
from crlc.training.distributed import SINGLE_PROCESS, World
from crlc.training.feature_cache import count_missing_features, load_or_compute_features
from crlc.training.images import load_images
from crlc.training.network_builder import build_network
from crlc.training.presets import FROZEN_HEADS


def compute_default_features(
    dataset: ImageDataset,
    *,
    engine: str = "auto",
    device: torch.device,
    world: World = SINGLE_PROCESS,
    report: ProgressCallback = no_progress,
) -> int:
    """Compute the features that the default method needs for photographs, and cache them with the dataset.

    Args:
        dataset: a dataset whose images are stored at the size of the default backbone.
        engine: engine that computes them: `auto`, `torch` or `openvino`.
        device: device of the backbone.
        world: the processes, each of which computes a part.
        report: receives the progress.

    Returns:
        The number of images whose features were computed; the others were cached already.
    """
    images = load_images(dataset, PHOTOGRAPH_SIZE)
    built = build_network(FROZEN_HEADS, len(images))
    missing = count_missing_features(images, built.identity)
    if world.any_rank(missing > 0):  # in any: the first may have merged what an interrupted computation has left
        load_or_compute_features(
            built.network.to(device),
            images,
            built.identity,
            dataset.features_folder,
            engine=engine,
            report=report,
            world=world,
        )
    return missing
