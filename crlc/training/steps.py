"""One function per objective: a batch in, the loss and what the meters need out. No optimiser, no files."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from crlc.losses import (
    LossTerms,
    LossWeights,
    bank_feature_contrastive,
    bank_probability_contrastive,
    combine,
    feature_contrastive,
    joint_probability,
    labelled_cross_entropy,
    logit_penalty,
    mean_entropy,
    probability_contrastive,
)
from crlc.memory_bank import MemoryBank
from crlc.model import NetworkOutput
from crlc.model.network import at_least_float32
from crlc.training.distributed import ALONE, World
from crlc.training.settings import TrainSettings


class Batch(NamedTuple):
    """What a step works on. Views are this process's share; the rest is of the whole batch, on the device."""

    views: tuple[Tensor, ...]
    """One view of each image, or two; the second may be of a neighbour."""

    positions: Tensor
    """Where in the run's images they stand, (B,)."""

    generator: torch.Generator
    """The only source of chance of this step, on the CPU."""

    clusterable: Tensor | None = None
    """Which of them L_cluster is for, (B,); none for all."""

    labelled: Tensor | None = None
    """Views of labelled images."""

    targets: Tensor | None = None
    """The outputs that those should have, (L,)."""


class StepOutcome(NamedTuple):
    """What a step gives: the loss to follow, and what the meters need."""

    terms: LossTerms
    joint: Tensor
    """Joint cluster probabilities of two looks at the same image, (S, C, C), detached."""

    counts: Tensor
    """How many looks fell into each cluster, (S, C), detached."""

    feature_candidates: int
    """M of the InfoNCE bound of L_FC: the positive and everything it is told from."""

    cluster_candidates: int
    """The same for L_PC; zero where no image of the batch is for the C-head."""


class _Look(NamedTuple):
    """The network's outputs for one part of a batch, of all processes."""

    z: Tensor
    logits: Tensor


def pair_step(network: nn.Module, batch: Batch, settings: TrainSettings, world: World = ALONE) -> StepOutcome:
    """SimCLR form: two views of each image (or of it and a neighbour), contrasted with all others of the batch."""
    first, second, *labelled = _looks(network, batch, world)
    logits, other_logits = _clusterable(first.logits, batch), _clusterable(second.logits, batch)
    q, other_q = at_least_float32(logits).softmax(dim=2), at_least_float32(other_logits).softmax(dim=2)
    feature = feature_contrastive(first.z, second.z, settings.temperature) if settings.feature_weight else None
    candidates = 2 * len(first.z) - 1
    if not q.shape[1]:
        return _without_clusters(feature, q, settings, candidates)
    terms = combine(
        _weights(settings, q.device),
        probability=probability_contrastive(q, other_q, settings.critic, settings.smoothing),
        entropy=(mean_entropy(q) + mean_entropy(other_q)) / 2,
        penalty=(logit_penalty(logits) + logit_penalty(other_logits)) / 2,
        feature=feature,
        labels=_label_loss(labelled, batch),
    )
    counts = _counts(torch.cat([q, other_q], dim=1))
    return StepOutcome(terms, joint_probability(q, other_q).detach(), counts, candidates, 2 * q.shape[1] - 1)


def bank_step(
    network: nn.Module, batch: Batch, settings: TrainSettings, bank: MemoryBank, world: World = ALONE
) -> StepOutcome:
    """MemoryBank form: one view of each image, contrasted with the bank; then the images' rows are moved."""
    look, *labelled = _looks(network, batch, world)
    own_q, own_z = bank.rows(batch.positions)
    drawn_q, drawn_z = bank.draw(settings.bank_negatives, batch.generator)
    logits, own_q = _clusterable(look.logits, batch), _clusterable(own_q, batch)
    q = at_least_float32(logits).softmax(dim=2)
    feature = (
        bank_feature_contrastive(look.z, own_z, drawn_z, settings.temperature) if settings.feature_weight else None
    )
    bank.update(batch.positions, at_least_float32(look.logits).softmax(dim=2), look.z)
    candidates = settings.bank_negatives + 1
    if not q.shape[1]:
        return _without_clusters(feature, q, settings, candidates)
    terms = combine(
        _weights(settings, q.device),
        probability=bank_probability_contrastive(q, own_q, drawn_q, settings.critic, settings.smoothing),
        entropy=mean_entropy(q),
        penalty=logit_penalty(logits),
        feature=feature,
        labels=_label_loss(labelled, batch),
    )
    return StepOutcome(terms, joint_probability(q, own_q).detach(), _counts(q), candidates, candidates)


def _looks(network: nn.Module, batch: Batch, world: World) -> list[_Look]:
    """One forward pass for everything, so that batch norms see it together; each part gathered by itself."""
    parts = [*batch.views, *([] if batch.labelled is None else [batch.labelled])]
    output: NetworkOutput = network(torch.cat(parts))
    lengths = [len(part) for part in parts]
    features, logits = torch.split(output.z, lengths), torch.split(output.logits, lengths, dim=1)
    return [_Look(world.gather(z), world.gather(u, dim=1)) for z, u in zip(features, logits, strict=True)]


def _label_loss(labelled: list[_Look], batch: Batch) -> Tensor | None:
    if not labelled or batch.targets is None:
        return None
    return labelled_cross_entropy(labelled[0].logits, batch.targets)


def _without_clusters(feature: Tensor | None, q: Tensor, settings: TrainSettings, candidates: int) -> StepOutcome:
    """The outcome of a batch in which no image is for the C-head."""
    subheads, _, clusters = q.shape
    zero = q.sum(dim=(1, 2))  # an empty sum, yet part of the graph
    terms = combine(_weights(settings, q.device), probability=zero, entropy=zero, penalty=zero, feature=feature)
    joint, counts = q.new_zeros(subheads, clusters, clusters), q.new_zeros(subheads, clusters)
    return StepOutcome(terms, joint, counts, candidates, 0)


def _weights(settings: TrainSettings, device: torch.device) -> LossWeights:
    entropy: float | Tensor = settings.entropy_weight
    if settings.uneven:
        entropy = torch.full((settings.subheads,), settings.entropy_weight, device=device)
        entropy[-settings.uneven :] = 0.0
    return LossWeights(entropy, settings.feature_weight, settings.label_weight, clustering=settings.clustering_weight)


def _clusterable(per_image: Tensor, batch: Batch) -> Tensor:
    return per_image if batch.clusterable is None else per_image[:, batch.clusterable]


def _counts(q: Tensor) -> Tensor:
    subheads, _, clusters = q.shape
    chosen = q.detach().argmax(dim=2)
    return torch.zeros(subheads, clusters, device=q.device).scatter_add_(
        1, chosen, torch.ones_like(chosen, dtype=torch.float32)
    )
