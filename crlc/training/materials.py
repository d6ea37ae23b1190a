"""What a stage needs before its first step: the network, what it is fed with, and who is whose neighbour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crlc.analysis.neighbours import neighbour_graph
from crlc.files import ArrayFile, put_in_place, write_file
from crlc.model import CrlcNetwork, make_backbone
from crlc.model.projection import Projection
from crlc.progress import ProgressCallback, no_progress
from crlc.training.distributed import ALONE, World
from crlc.training.features import BackboneFeatures, backbone_features
from crlc.training.images import TrainingImages
from crlc.training.inputs import FeatureInputs
from crlc.training.randomness import generator_for
from crlc.training.settings import TrainSettings


@dataclass(frozen=True)
class BuiltNetwork:
    """A network, and what names its pretrained weights (empty where they are of chance)."""

    network: CrlcNetwork
    identity: str


def build_network(settings: TrainSettings, images: int | None = None, *, components: int | None = None) -> BuiltNetwork:
    """The network of a run before training; the seed decides its weights.

    Args:
        settings: of the run.
        images: how many there are: as many components of a frozen backbone's vectors can be told apart.
        components: their number, where it is known from a checkpoint.
    """
    backbone = make_backbone(settings.backbone, settings.image_size, settings.weights)
    if settings.frozen and settings.components and components is None:
        components = min(settings.components, backbone.dimensions, max(2, (images or settings.components) - 1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator_for(settings.seed, "weights").initial_seed())
        if not settings.frozen and not backbone.identity:
            backbone = make_backbone(settings.backbone, settings.image_size)  # with weights of this seed
        network = CrlcNetwork(
            backbone, settings.clusters, settings.subheads, projected=components, hidden=settings.hidden or None
        )
    network.freeze_backbone(frozen=settings.frozen)
    return BuiltNetwork(network, backbone.identity)


def components_in(state: dict[str, torch.Tensor] | None) -> int | None:
    """How many components the projection in a network's state has; none where there is none."""
    components = None if state is None else state.get("projection.components")
    return None if components is None else int(components.shape[1])


def network_of(state: dict[str, object], settings: TrainSettings) -> CrlcNetwork:
    """The network that a checkpoint's state belongs to, with that state."""
    learned: dict[str, torch.Tensor] = state["network"]  # type: ignore[assignment]
    components = components_in(learned)
    without = replace(settings, components=0) if components is None and settings.frozen else settings
    network = build_network(without, components=components).network
    network.load_learned_state(learned)
    return network


def frozen_inputs(
    built: BuiltNetwork,
    images: TrainingImages,
    settings: TrainSettings,
    file: Path,
    *,
    fit: bool,
    report: ProgressCallback = no_progress,
    world: World = ALONE,
) -> FeatureInputs:
    """Projected vectors of a frozen backbone for all images, in a file of the run.

    Args:
        built: the network and the name of its weights.
        images: of which vectors are wanted.
        settings: of the run.
        file: where to put them; features without another place go beside it.
        fit: whether the projection is to be learned from these images.
        report: told how far the backbone is.
        world: the processes at work.
    """
    network = built.network
    features = backbone_features(network, images, built.identity, file.parent / "features", report=report, world=world)
    projection = network.projection
    if fit and isinstance(projection, Projection) and not projection.is_fitted:
        projection.fit(features.chunks)
    if world.is_writer:
        _write_vectors(network, features, file)
    world.wait()
    device, dtype = network.mean.device, network.mean.dtype
    return FeatureInputs(np.load(file, mmap_mode="r", allow_pickle=False), settings.dropout, device, dtype)


@torch.no_grad()
def _write_vectors(network: CrlcNetwork, features: BackboneFeatures, file: Path) -> None:
    temporary = file.with_suffix(".part")
    rows: ArrayFile | None = None
    place = 0
    for chunk in features.chunks():
        vectors = network.projection(chunk.to(network.mean)).float().cpu().numpy()
        if rows is None:
            ArrayFile.create(temporary, (len(features), vectors.shape[1]), np.float32)
            rows = ArrayFile(temporary)
        rows.write(place, vectors)
        place += len(chunk)
    assert rows is not None  # a run has images
    rows.close()
    put_in_place(temporary, file)


def find_neighbours(
    features: NDArray[np.float32], count: int, file: Path, report: ProgressCallback = no_progress
) -> NDArray[np.int64]:
    """The nearest images of each image by cosine similarity, kept in a file; fewer if there are not so many."""
    found = neighbour_graph(features, min(count, len(features) - 1), report=report).positions
    write_file(file, partial(np.save, arr=found.astype(np.int32), allow_pickle=False))
    return found


def neighbour_purity(neighbours: NDArray[Any], classes: NDArray[np.int64] | None) -> float | None:
    """Share of neighbours that are of the image's own class, where classes are known. For reporting only."""
    if classes is None:
        return None
    known = (classes >= 0)[:, None] & (classes[neighbours] >= 0)
    if not known.any():
        return None
    same = classes[:, None] == classes[neighbours]
    return float(same[known].mean())
