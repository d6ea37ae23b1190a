"""Consensus of several subheads, distilled into the selected one.

Subheads differ in where they draw the border between similar clusters. The mean of their probabilities is more accurate
than one of them, most of all with many clusters. The selected subhead learns this mean, so that the network keeps its
form, and every use of the selected subhead profits. The method is not from the paper.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from crlc.analysis.class_metrics import compute_contingency
from crlc.arrays import IntArray
from crlc.model.heads import ClusteringHead
from crlc.training.inputs import FeatureInputs
from crlc.training.randomness import make_generator

_STEPS = 400
_BATCH_IMAGES = 256
_LEARNING_RATE = 1e-3
_CHUNK_IMAGES = 4_096


def distil_consensus(
    head: ClusteringHead, inputs: FeatureInputs, positions: IntArray, selected: int, members: int, seed: int
) -> None:
    """Train the selected subhead to predict the mean probabilities of the first subheads. The others do not change.

    Args:
        head: the C-head; its selected subhead is modified.
        inputs: features of all images.
        positions: rows of the images to learn from.
        selected: the selected subhead; the clusters keep its numbers.
        members: number of leading subheads whose mean is learnt.
        seed: seed of the order of the images.
    """
    teacher = copy.deepcopy(head).requires_grad_(False)
    orders = _align_subheads(teacher, inputs, positions, selected, members)
    student = {
        name: value.detach()[selected : selected + 1].clone().requires_grad_()
        for name, value in head.named_parameters()
    }
    optimizer = torch.optim.Adam(student.values(), _LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + math.cos(math.pi * step / _STEPS)) / 2)
    for step in range(_STEPS):
        draws = torch.randint(len(positions), (_BATCH_IMAGES,), generator=make_generator(seed, "consensus", step))
        h = inputs.read(positions[draws.numpy()])
        targets = average_aligned(teacher(h)[:members], orders)
        logits: Tensor = functional_call(head, student, (h,))[0]
        loss = functional.cross_entropy(logits, targets)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        for name, value in head.named_parameters():
            value[selected] = student[name][0]


def average_aligned(logits: Tensor, orders: Tensor) -> Tensor:
    """Return the mean probabilities of several subheads with the same numbers of clusters, (B, C).

    Args:
        logits: logits of the subheads, (S, B, C).
        orders: for each subhead, its cluster that equals each cluster of the selected subhead, (S, C).
    """
    q = logits.float().softmax(dim=2)
    return q.gather(2, orders[:, None, :].expand_as(q)).mean(dim=0)


def _align_subheads(
    head: ClusteringHead, inputs: FeatureInputs, positions: IntArray, selected: int, members: int
) -> Tensor:
    """Return the permutations that align the clusters of the first subheads with those of the selected one, (S, C)."""
    from scipy.optimize import linear_sum_assignment

    clusters = head.second_bias.shape[2]
    shared = np.zeros((members, clusters, clusters), np.int64)
    for found in _iterate_clusters(head, inputs, positions):
        for subhead in range(members):
            table = compute_contingency(found[selected], found[subhead])
            shared[subhead, : table.shape[0], : table.shape[1]] += table
    orders = np.stack([linear_sum_assignment(table, maximize=True)[1] for table in shared])
    return torch.from_numpy(orders.astype(np.int64)).to(head.second_bias.device)


def _iterate_clusters(head: ClusteringHead, inputs: FeatureInputs, positions: IntArray) -> Iterator[IntArray]:
    """Yield the clusters of all subheads, (S, n), in chunks of images."""
    for start in range(0, len(positions), _CHUNK_IMAGES):
        h = inputs.read(positions[start : start + _CHUNK_IMAGES])
        yield head(h).argmax(dim=2).cpu().numpy()
