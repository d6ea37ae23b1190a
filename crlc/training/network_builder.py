"""Network builder: creates the network of a run from its settings or from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from crlc.model import CrlcNetwork, build_backbone
from crlc.training.randomness import make_generator
from crlc.training.settings import TrainSettings


@dataclass(frozen=True)
class BuiltNetwork:
    """A network with the name of its pretrained weights."""

    network: CrlcNetwork
    identity: str
    """Identifies the pretrained weights of the backbone; empty for random initialisation."""

    has_pretrained_rl_head: bool = False
    """Whether the weights file contained an RL-head too, as those of MoCo do."""


def build_network(settings: TrainSettings, images: int | None = None, *, components: int | None = None) -> BuiltNetwork:
    """Build the network of a run with its initial weights, which depend only on the seed and the pretrained weights.

    Args:
        settings: settings of the run.
        images: number of images, which limits the principal components of a frozen backbone's features.
        components: number of principal components, where a checkpoint determines it.
    """
    model = settings.model
    backbone = build_backbone(model.backbone, settings.data.image_size, model.weights, model.stem)
    if settings.model.frozen and settings.model.pca_components and components is None:
        components = min(
            settings.model.pca_components, backbone.dimensions, max(2, (images or settings.model.pca_components) - 1)
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(make_generator(settings.run.seed, "weights").initial_seed())
        if not settings.model.frozen and not backbone.identity:
            backbone = build_backbone(model.backbone, settings.data.image_size, stem=model.stem)  # by the seed
        network = CrlcNetwork(
            backbone,
            settings.model.clusters,
            settings.model.subheads,
            projected=components,
            hidden=settings.model.hidden_width or None,
        )
    network.set_backbone_frozen(frozen=settings.model.frozen)
    return BuiltNetwork(network, backbone.identity, backbone.rl_head is not None and components is None)


def count_components(state: dict[str, torch.Tensor] | None) -> int | None:
    """Return the number of principal components in the state of a network, or `None` without a projection."""
    components = None if state is None else state.get("projection.components")
    return None if components is None else int(components.shape[1])


def build_from_checkpoint(state: dict[str, object], settings: TrainSettings) -> CrlcNetwork:
    """Build the network of a checkpoint and load its weights.

    Args:
        state: content of the checkpoint.
        settings: settings of the run that wrote it.
    """
    learned: dict[str, torch.Tensor] = state["network"]  # type: ignore[assignment]
    components = count_components(learned)
    if components is None and settings.model.frozen:
        settings = settings.replace(pca_components=0)
    network = build_network(settings, components=components).network
    network.load_learned_state(learned)
    return network
