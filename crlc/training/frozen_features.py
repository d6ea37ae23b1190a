"""Projected features of a frozen backbone, the inputs of the heads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from crlc.array_files import load_array
from crlc.backbone_catalogue import OPEN_CLIP_PREFIX
from crlc.data.feature_source import FeatureSource, write_feature_source
from crlc.files import ArrayFile, replace_file
from crlc.model import CrlcNetwork
from crlc.model.projection import Projection
from crlc.progress import ProgressCallback, no_progress
from crlc.training.distributed import SINGLE_PROCESS, World
from crlc.training.feature_cache import BackboneFeatures, get_feature_set_folder, load_or_compute_features
from crlc.training.images import TrainingImages
from crlc.training.inputs import FeatureInputs
from crlc.training.network_builder import BuiltNetwork
from crlc.training.settings import TrainSettings


def load_frozen_features(
    built: BuiltNetwork,
    images: TrainingImages,
    settings: TrainSettings,
    file: Path,
    *,
    fit: bool,
    report: ProgressCallback = no_progress,
    world: World = SINGLE_PROCESS,
) -> FeatureInputs:
    """Write the projected features of all images to a file, and return them as inputs of the heads.

    Args:
        built: the network and the name of its weights.
        images: the images.
        settings: settings of the run.
        file: file for the projected features. Features of images without a feature folder are cached beside it.
        fit: whether to fit the projection to these images, if it is not fitted yet.
        report: called with the progress of the backbone.
        world: the processes, each of which computes a part of the features.
    """
    network, fallback = built.network, file.parent / "features"
    features = load_or_compute_features(
        network,
        images,
        built.identity,
        fallback,
        engine=settings.run.engine,
        report=report,
        world=world,
    )
    if world.is_rank_zero and settings.model.backbone.startswith(OPEN_CLIP_PREFIX):
        folder = get_feature_set_folder(images.feature_folder or fallback, built.identity, images.size)
        write_feature_source(folder, FeatureSource(settings.model.backbone, settings.model.weights))
    projection = network.projection
    if fit and isinstance(projection, Projection) and not projection.is_fitted:
        projection.fit(features.iterate_chunks)
    if world.is_rank_zero:
        _write_projected(network, features, file)
    world.wait_for_all()
    device, dtype = network.mean.device, network.mean.dtype
    return FeatureInputs(load_array(file, is_mapped=True), settings.data.feature_dropout, device, dtype)


@torch.no_grad()
def _write_projected(network: CrlcNetwork, features: BackboneFeatures, file: Path) -> None:
    temporary = file.with_suffix(".part")
    rows: ArrayFile | None = None
    start = 0
    for chunk in features.iterate_chunks():
        vectors = network.projection(chunk.to(network.mean)).float().cpu().numpy()
        if rows is None:
            ArrayFile.create(temporary, (len(features), vectors.shape[1]), np.float32)
            rows = ArrayFile(temporary)
        rows.write(start, vectors)
        start += len(chunk)
    assert rows is not None  # there is at least one image
    rows.close()
    replace_file(temporary, file)
