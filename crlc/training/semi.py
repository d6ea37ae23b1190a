"""CRLC-semi (Eq. 12): settings, targets and initial weights of a run that starts from a parent run and labels.

Names are matched to the outputs of the selected subhead, and the outputs of the other subheads are permuted to agree
with it, so that one target fits every subhead. The selected subhead is not permuted: cluster 3 of the parent is
cluster 3 of the child.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crlc.analysis.class_metrics import compute_contingency
from crlc.analysis.label_matching import match_names_to_clusters
from crlc.annotations.label_set import LabelSet
from crlc.model.heads import initialize_weights
from crlc.training.batches import LabelTargets
from crlc.training.randomness import make_generator
from crlc.training.settings import TrainSettings

_PARENT_EPOCHS_PER_EPOCH = 4
"""A run that trains the backbone of a parent further has a quarter of the parent's epochs."""

_PSEUDO_LABEL_WEIGHT = 10.0

_MIN_STEPS = 150
_LEARNING_RATE_DIVISOR = 3
_LABEL_WEIGHT = 1000.0
"""Weight of a labelled image in the alignment of subheads; all unlabelled images together have weight 1."""


@dataclass(frozen=True)
class NamedOutputs:
    """Outputs of the C-head by the name of the label that each represents."""

    names: tuple[str, ...]
    outputs: NDArray[np.int64]
    """The output of each name, (names,)."""

    permutations: NDArray[np.int64]
    """For each subhead, the old index of every output in the new order, (S, C)."""

    unsupported: tuple[str, ...]
    """Names whose matched cluster contains none of their labelled images."""

    @property
    def clusters(self) -> int:
        """Number of clusters C, including outputs that are added for further names."""
        return int(self.permutations.shape[1])

    def get_names_by_output(self) -> dict[int, str]:
        """Return the name of each output that has one."""
        return dict(zip(self.outputs.tolist(), self.names, strict=True))


def match_names_to_outputs(
    q: NDArray[np.float32],
    by_subhead: NDArray[np.int32],
    selected: int,
    positions: NDArray[np.int64],
    names: list[str],
) -> NamedOutputs:
    """Match names to outputs so that as many labelled images as possible are in the cluster of their name.

    Args:
        q: probabilities of the selected subhead for all images of the parent, (N, C).
        by_subhead: cluster of each image by each subhead, (N, S).
        selected: index of the selected subhead.
        positions: positions of the labelled images, (L,).
        names: label of each labelled image, (L,).
    """
    matched = match_names_to_clusters(q[positions], by_subhead[positions, selected].astype(np.int64), names)
    outputs = matched.clusters
    targets = outputs[np.searchsorted(np.array(matched.names, object), np.array(names, object))]
    clusters = max(q.shape[1], len(matched.names))
    orders = [
        np.arange(clusters)
        if subhead == selected
        else _align_subhead(by_subhead, subhead, selected, clusters, positions, targets)
        for subhead in range(by_subhead.shape[1])
    ]
    return NamedOutputs(matched.names, outputs, np.stack(orders), matched.unsupported)


def _align_subhead(
    by_subhead: NDArray[np.int32],
    subhead: int,
    selected: int,
    clusters: int,
    positions: NDArray[np.int64],
    targets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the permutation that aligns a subhead's clusters with those of the selected subhead.

    Labelled images decide first, then the number of images that two clusters share.
    """
    from scipy.optimize import linear_sum_assignment

    score = np.zeros((clusters, clusters))
    shared = compute_contingency(by_subhead[:, selected], by_subhead[:, subhead])
    score[: shared.shape[0], : shared.shape[1]] = shared / len(by_subhead)
    np.add.at(score, (targets, by_subhead[positions, subhead]), _LABEL_WEIGHT)
    _, order = linear_sum_assignment(score, maximize=True)
    return np.asarray(order, np.int64)


def build_initial_weights(parent: dict[str, Tensor], named: NamedOutputs, seed: int) -> dict[str, Tensor]:
    """Return the parent's weights with permuted outputs, and new outputs for names beyond the parent's clusters.

    Args:
        parent: state of the parent's network.
        named: the permutations and the new number of clusters.
        seed: seed of the weights of new outputs.
    """
    weight, bias = parent["c_head.second_weight"], parent["c_head.second_bias"]
    subheads, width, clusters = weight.shape
    added = named.clusters - clusters
    if added:
        fresh = torch.empty(subheads, width, added)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(make_generator(seed, "added outputs").initial_seed())
            initialize_weights(fresh, width)
        weight = torch.cat([weight, fresh.to(weight)], dim=2)
        bias = torch.cat([bias, bias.new_zeros(subheads, 1, added)], dim=2)
    orders = torch.from_numpy(named.permutations).to(weight.device)[:, None, :]
    return {
        **parent,
        "c_head.second_weight": weight.gather(2, orders.expand(-1, width, -1)),
        "c_head.second_bias": bias.gather(2, orders),
    }


def make_label_targets(labels: LabelSet, ids: NDArray[np.int64], named: NamedOutputs) -> LabelTargets:
    """Return the training targets of labels.

    Args:
        labels: labels of training images.
        ids: ids of all training images, ascending.
        named: the output of each name.
    """
    output = {name: number for number, name in named.get_names_by_output().items()}
    by_code = np.array([output[name] for name in labels.names], np.int64)
    return LabelTargets(labels.find_positions(ids), by_code[labels.codes])


def build_semi_settings(parent: TrainSettings, clusters: int, images: int) -> TrainSettings:
    """Return settings that continue a parent's training with labels.

    On a frozen backbone, the heads are trained for as long as the parent's, with pseudo-labels and without the entropy
    term: labels keep the clusters apart, and need not be of equal size. Other runs have fewer epochs and a lower
    learning rate than their parent. The child of a semi-supervised run keeps its parent's epochs and learning rate, so
    that they do not shrink in every round.

    Args:
        parent: settings of the parent run.
        clusters: number of clusters, including those added for further names.
        images: number of training images.
    """
    if parent.stages.method == "semi":
        return parent.replace(clusters=clusters)
    if parent.model.frozen and not parent.stages.finetune_epochs:
        return parent.replace(
            method="semi",
            clusters=clusters,
            schedule="cosine",
            warmup_epochs=0.0,
            entropy_weight=0.0,
            unbalanced_subheads=0,
            pseudo_label_weight=_PSEUDO_LABEL_WEIGHT,
        )
    steps_per_epoch = max(1, images // min(parent.data.batch_size, images))
    epochs = max(parent.stages.epochs // _PARENT_EPOCHS_PER_EPOCH, -(-_MIN_STEPS // steps_per_epoch))
    is_fine_tuned = parent.stages.finetune_epochs > 0
    learning_rate = parent.optimization.learning_rate / _LEARNING_RATE_DIVISOR
    if is_fine_tuned:
        learning_rate = parent.stages.finetune_learning_rate
    return parent.replace(
        method="semi",
        clusters=clusters,
        epochs=epochs,
        frozen=False,
        pretrain_epochs=0,
        finetune_epochs=0,
        learning_rate=learning_rate,
        schedule="cosine",
        warmup_epochs=0.0,
    )
