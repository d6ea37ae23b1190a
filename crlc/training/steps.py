"""Training objectives of one batch (Eq. 11 and 12), in SimCLR form and in MemoryBank form.

They return the loss terms and statistics for the metrics of an epoch; they neither update weights nor write files.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from crlc.losses import (
    LossTerms,
    LossWeights,
    bank_feature_contrastive,
    bank_probability_contrastive,
    combine_loss_terms,
    feature_contrastive,
    joint_probability,
    labelled_cross_entropy,
    logit_penalty,
    mean_entropy,
    probability_contrastive,
    soft_cross_entropy,
)
from crlc.model import NetworkOutput
from crlc.model.memory_bank import MemoryBank
from crlc.model.network import widen_to_float32
from crlc.training.distributed import SINGLE_PROCESS, World
from crlc.training.settings import TrainSettings


class Batch(NamedTuple):
    """Input of one training step. Views are this process's slice; the other tensors are of the whole batch."""

    views: tuple[Tensor, ...]
    """One or two views of each image; the second may be a view of a neighbour."""

    positions: Tensor
    """Positions in the images of the run, (B,)."""

    generator: torch.Generator
    """The only source of randomness of this step, on the CPU."""

    clusterable: Tensor | None = None
    """Whether L_cluster is computed for each image, (B,); `None` for all."""

    labelled: Tensor | None = None
    """Views of labelled images, for CRLC-semi."""

    targets: Tensor | None = None
    """Target clusters of the labelled images, (L,)."""

    pseudo_labels: tuple[Tensor, Tensor] | None = None
    """Target probabilities of the images in the two views, (B, C) each, for CRLC-semi on frozen features."""


class StepOutcome(NamedTuple):
    """Result of one training step: the terms of the loss, and statistics for the metrics of the epoch."""

    terms: LossTerms
    joint: Tensor
    """Joint cluster probabilities of the two views of an image, (S, C, C), detached."""

    counts: Tensor
    """Number of views assigned to each cluster, (S, C), detached."""

    feature_samples: int
    """Number of contrasted samples M in L_FC: the positive and its negatives."""

    probability_samples: int
    """Number of contrasted samples M in L_PC; 0 where L_cluster is computed for no image of the batch."""


class _Outputs(NamedTuple):
    """Outputs of the network for one part of a batch, gathered from all processes."""

    z: Tensor
    logits: Tensor


def compute_simclr_objective(
    network: nn.Module, batch: Batch, settings: TrainSettings, world: World = SINGLE_PROCESS
) -> StepOutcome:
    """Compute L_CRLC (Eq. 11; Eq. 12 with labels) in SimCLR form.

    L_FC (Eq. 5) and L_PC (Eq. 7-9) contrast the two views of an image, or of an image and its neighbour, with all
    other views of the batch: 2B - 2 negatives, symmetric over both views (authors' code). The entropy H and the penalty
    on large logits are computed per view and averaged.

    Args:
        network: the network, or its DistributedDataParallel wrapper.
        batch: a batch with two views.
        settings: settings of the stage.
        world: the processes that share the batch.
    """
    first, second, *labelled = _run_forward(network, batch, world)
    logits, other_logits = _select_clusterable(first.logits, batch), _select_clusterable(second.logits, batch)
    q, other_q = widen_to_float32(logits).softmax(dim=2), widen_to_float32(other_logits).softmax(dim=2)
    feature = (
        feature_contrastive(first.z, second.z, settings.feature_loss.temperature)
        if settings.feature_loss.feature_weight
        else None
    )
    feature_samples = 2 * len(first.z) - 1
    if not q.shape[1]:
        return _skip_clustering(feature, q, settings, feature_samples)
    terms = combine_loss_terms(
        _build_weights(settings, q.device),
        probability=probability_contrastive(
            q, other_q, settings.clustering_loss.critic, settings.clustering_loss.smoothing
        ),
        entropy=(mean_entropy(q) + mean_entropy(other_q)) / 2,
        penalty=(logit_penalty(logits) + logit_penalty(other_logits)) / 2,
        feature=feature,
        labels=_add_pseudo_label_loss(_compute_label_loss(labelled, batch), (first, second), batch, settings),
    )
    counts = _count_assignments(torch.cat([q, other_q], dim=1))
    return StepOutcome(terms, joint_probability(q, other_q).detach(), counts, feature_samples, 2 * q.shape[1] - 1)


def compute_memory_bank_objective(
    network: nn.Module, batch: Batch, settings: TrainSettings, bank: MemoryBank, world: World = SINGLE_PROCESS
) -> StepOutcome:
    """Compute L_CRLC (Eq. 11; Eq. 12 with labels) in MemoryBank form, and update the bank (Eq. 10).

    One view of each image is contrasted with rows of the bank. The positive is the image's own row as it was before
    this step's update; the negatives are drawn uniformly, without replacement, from the rows of the images that are not
    in the batch.

    Args:
        network: the network, or its DistributedDataParallel wrapper.
        batch: a batch with one view.
        settings: settings of the stage.
        bank: the memory bank of the run.
        world: the processes that share the batch.
    """
    view, *labelled = _run_forward(network, batch, world)
    own_q, own_z = bank.read_rows(batch.positions)
    drawn_q, drawn_z = bank.draw_rows(settings.pairing.bank_negatives, batch.generator, batch.positions)
    logits, own_q = _select_clusterable(view.logits, batch), _select_clusterable(own_q, batch)
    q = widen_to_float32(logits).softmax(dim=2)
    feature = (
        bank_feature_contrastive(view.z, own_z, drawn_z, settings.feature_loss.temperature)
        if settings.feature_loss.feature_weight
        else None
    )
    bank.update(batch.positions, widen_to_float32(view.logits).softmax(dim=2), view.z)
    feature_samples, samples = len(drawn_z) + 1, drawn_q.shape[1] + 1
    if not q.shape[1]:
        return _skip_clustering(feature, q, settings, feature_samples)
    terms = combine_loss_terms(
        _build_weights(settings, q.device),
        probability=bank_probability_contrastive(
            q, own_q, drawn_q, settings.clustering_loss.critic, settings.clustering_loss.smoothing
        ),
        entropy=mean_entropy(q),
        penalty=logit_penalty(logits),
        feature=feature,
        labels=_compute_label_loss(labelled, batch),
    )
    return StepOutcome(terms, joint_probability(q, own_q).detach(), _count_assignments(q), feature_samples, samples)


def _run_forward(network: nn.Module, batch: Batch, world: World) -> list[_Outputs]:
    """Return the outputs of each part of a batch.

    All parts share one forward pass, so that batch norms use the statistics of all; each part is gathered separately.
    """
    parts = [*batch.views, *([] if batch.labelled is None else [batch.labelled])]
    output: NetworkOutput = network(torch.cat(parts))
    lengths = [len(part) for part in parts]
    features, logits = torch.split(output.z, lengths), torch.split(output.logits, lengths, dim=1)
    return [_Outputs(world.gather(z), world.gather(u, dim=1)) for z, u in zip(features, logits, strict=True)]


def _compute_label_loss(labelled: list[_Outputs], batch: Batch) -> Tensor | None:
    if not labelled or batch.targets is None:
        return None
    return labelled_cross_entropy(labelled[0].logits, batch.targets)


def _add_pseudo_label_loss(
    label_loss: Tensor | None, views: tuple[_Outputs, _Outputs], batch: Batch, settings: TrainSettings
) -> Tensor | None:
    """Add the weighted cross-entropy with the pseudo-labels of both views, if the batch has any."""
    if label_loss is None or batch.pseudo_labels is None:
        return label_loss
    pairs = zip(views, batch.pseudo_labels, strict=True)
    losses = [soft_cross_entropy(view.logits, targets) for view, targets in pairs]
    return label_loss + settings.clustering_loss.pseudo_label_weight * (losses[0] + losses[1]) / 2


def _skip_clustering(feature: Tensor | None, q: Tensor, settings: TrainSettings, feature_samples: int) -> StepOutcome:
    """Return the outcome of a batch in which L_cluster is computed for no image."""
    subheads, _, clusters = q.shape
    zero = q.sum(dim=(1, 2))  # a sum over no images: zero, but still part of the autograd graph
    terms = combine_loss_terms(
        _build_weights(settings, q.device), probability=zero, entropy=zero, penalty=zero, feature=feature
    )
    joint, counts = q.new_zeros(subheads, clusters, clusters), q.new_zeros(subheads, clusters)
    return StepOutcome(terms, joint, counts, feature_samples, 0)


def _build_weights(settings: TrainSettings, device: torch.device) -> LossWeights:
    """Return λ1, λ2 and λ3; the last subheads have another λ1 if some are trained for unbalanced clusters."""
    entropy: float | Tensor = settings.clustering_loss.entropy_weight
    if settings.effective_unbalanced_subheads:
        entropy = torch.full((settings.model.subheads,), settings.clustering_loss.entropy_weight, device=device)
        entropy[-settings.effective_unbalanced_subheads :] = settings.clustering_loss.unbalanced_entropy_weight
    return LossWeights(
        entropy,
        settings.feature_loss.feature_weight,
        settings.clustering_loss.label_weight,
        clustering=settings.clustering_loss.clustering_weight,
    )


def _select_clusterable(per_image: Tensor, batch: Batch) -> Tensor:
    return per_image if batch.clusterable is None else per_image[:, batch.clusterable]


def _count_assignments(q: Tensor) -> Tensor:
    subheads, _, clusters = q.shape
    assigned = q.detach().argmax(dim=2)
    return torch.zeros(subheads, clusters, device=q.device).scatter_add_(
        1, assigned, torch.ones_like(assigned, dtype=torch.float32)
    )
