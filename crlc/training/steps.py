"""One function per objective: from a batch to the terms of its loss."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from crlc.data.augment import Recipe, make_view, normalise
from crlc.losses import (
    LossTerms,
    LossWeights,
    bank_feature_contrastive,
    bank_probability_contrastive,
    combine,
    feature_contrastive,
    joint_probability,
    logit_penalty,
    mean_entropy,
    probability_contrastive,
)
from crlc.memory_bank import MemoryBank
from crlc.model import NetworkOutput
from crlc.training.settings import TrainSettings


class Batch(NamedTuple):
    """What a step works on."""

    images: Tensor
    """(B, 3, H, W), from 0 to 1, on the device."""

    positions: Tensor
    """Where in the run's images they stand, (B,), on the device."""

    clusterable: Tensor | None
    """Which of them L_cluster is for, (B,); none for all."""

    generator: torch.Generator
    """The only source of chance of this step, on the CPU."""


class StepOutcome(NamedTuple):
    """What a step gives: the loss to follow, and what the meters need."""

    terms: LossTerms
    joint: Tensor
    """Joint cluster probabilities of two looks at the same image, (S, C, C), detached."""

    counts: Tensor
    """How many looks fell into each cluster, (S, C), detached."""


def simclr_step(network: nn.Module, batch: Batch, recipe: Recipe, settings: TrainSettings) -> StepOutcome:
    """Two views of each image, contrasted with one another inside the batch."""
    count = len(batch.images)
    views = [normalise(make_view(batch.images, recipe, batch.generator)) for _ in range(2)]
    output: NetworkOutput = network(torch.cat(views))
    z, other_z = output.z[:count], output.z[count:]
    logits = _clusterable(output.logits[:, :count], batch)
    other_logits = _clusterable(output.logits[:, count:], batch)
    q, other_q = logits.float().softmax(dim=2), other_logits.float().softmax(dim=2)
    feature = feature_contrastive(z, other_z, settings.temperature) if settings.feature_weight else None
    if not q.shape[1]:
        return _without_clusters(feature, q, settings)
    terms = combine(
        _weights(settings),
        probability=probability_contrastive(q, other_q, settings.critic, settings.smoothing),
        entropy=(mean_entropy(q) + mean_entropy(other_q)) / 2,
        penalty=(logit_penalty(logits) + logit_penalty(other_logits)) / 2,
        feature=feature,
    )
    both = torch.cat([q, other_q], dim=1)
    return StepOutcome(terms, joint_probability(q, other_q).detach(), _counts(both))


def memory_bank_step(
    network: nn.Module, batch: Batch, recipe: Recipe, settings: TrainSettings, bank: MemoryBank
) -> StepOutcome:
    """One view of each image, contrasted with the bank; then the images' rows of the bank are moved."""
    output: NetworkOutput = network(normalise(make_view(batch.images, recipe, batch.generator)))
    rows = bank.features.shape[0]
    drawn = torch.randint(rows, (settings.bank_negatives,), generator=batch.generator).to(batch.positions.device)
    own_q, own_z = bank.rows(batch.positions)
    drawn_q, drawn_z = bank.rows(drawn)
    logits, own_q = _clusterable(output.logits, batch), _clusterable(own_q, batch)
    q = logits.float().softmax(dim=2)
    feature = (
        bank_feature_contrastive(output.z, own_z, drawn_z, settings.temperature) if settings.feature_weight else None
    )
    bank.update(batch.positions, output.q, output.z)
    if not q.shape[1]:
        return _without_clusters(feature, q, settings)
    terms = combine(
        _weights(settings),
        probability=bank_probability_contrastive(q, own_q, drawn_q, settings.critic, settings.smoothing),
        entropy=mean_entropy(q),
        penalty=logit_penalty(logits),
        feature=feature,
    )
    return StepOutcome(terms, joint_probability(q, own_q).detach(), _counts(q))


def candidates(settings: TrainSettings, batch_size: int) -> int:
    """M of the InfoNCE bounds: the positive and everything it is told from."""
    return 2 * batch_size - 1 if settings.implementation == "simclr" else settings.bank_negatives + 1


def _without_clusters(feature: Tensor | None, q: Tensor, settings: TrainSettings) -> StepOutcome:
    """The outcome of a batch in which no image is for the C-head."""
    subheads, _, clusters = q.shape
    zero = q.sum(dim=(1, 2))  # an empty sum, yet part of the graph
    terms = combine(_weights(settings), probability=zero, entropy=zero, penalty=zero, feature=feature)
    return StepOutcome(terms, q.new_zeros(subheads, clusters, clusters), q.new_zeros(subheads, clusters))


def _weights(settings: TrainSettings) -> LossWeights:
    return LossWeights(settings.entropy_weight, settings.feature_weight, clustering=settings.clustering_weight)


def _clusterable(per_image: Tensor, batch: Batch) -> Tensor:
    return per_image if batch.clusterable is None else per_image[:, batch.clusterable]


def _counts(q: Tensor) -> Tensor:
    subheads, _, clusters = q.shape
    chosen = q.detach().argmax(dim=2)
    return torch.zeros(subheads, clusters, device=q.device).scatter_add_(
        1, chosen, torch.ones_like(chosen, dtype=torch.float32)
    )
