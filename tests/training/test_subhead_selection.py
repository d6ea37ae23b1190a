"""Selection of the subhead by neighbour agreement."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from crlc.model import NetworkOutput
from crlc.training.inputs import FeatureInputs
from crlc.training.subhead_selection import (
    compute_neighbour_information,
    score_neighbour_information,
    select_by_loss,
    select_by_neighbours,
    select_subhead,
)

OWN = np.array([0, 0, 1, 1])
MIXED = np.array([[0, 1], [0, 1], [0, 1], [0, 1]])


@pytest.mark.parametrize(
    ("own", "theirs", "information"),
    [
        (OWN, OWN[:, None], np.log(2)),
        (OWN, MIXED, 0),
        (np.zeros(4, int), np.zeros((4, 2), int), 0),  # one cluster carries no information
    ],
    ids=["same", "independent", "one cluster"],
)
def test_neighbour_information_of_known_tables(own: np.ndarray, theirs: np.ndarray, information: float):
    assert compute_neighbour_information(own, theirs) == pytest.approx(information)


def test_neighbour_agreement_subtracts_half_of_the_entropy():
    assert score_neighbour_information(OWN, OWN[:, None]) == pytest.approx(np.log(2) / 2)
    assert score_neighbour_information(OWN, MIXED) == pytest.approx(-np.log(2) / 2)


class TableNetwork(nn.Module):
    """A network whose subheads read the clusters from the input: column s is the cluster by subhead s."""

    def forward(self, inputs: Tensor) -> NetworkOutput:
        logits = 20 * nn.functional.one_hot(inputs.long().T, 2).float()
        return NetworkOutput(inputs, inputs, logits)


# The first four images are neighbours of each other, and so are the last four. The second and third column follow them.
TABLE = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1], [0, 1, 1], [1, 1, 1]], np.float32)
NEIGHBOURS = np.array(
    [[other for other in range(8) if other // 4 == image // 4 and other != image] for image in range(8)]
)


def test_select_by_neighbours_selects_the_subhead_with_the_highest_agreement():
    inputs = FeatureInputs(TABLE[:, :2], 0.0, torch.device("cpu"))
    assert select_by_neighbours(TableNetwork(), inputs, NEIGHBOURS) == 1


@pytest.mark.parametrize(("columns", "selected"), [([0, 0, 1], 2), ([0, 1, 2], 1)], ids=["better", "equal"])
def test_select_by_neighbours_requires_a_margin_of_unbalanced_subheads(columns: list[int], selected: int):
    inputs = FeatureInputs(np.ascontiguousarray(TABLE[:, columns]), 0.0, torch.device("cpu"))
    assert select_by_neighbours(TableNetwork(), inputs, NEIGHBOURS, unbalanced=1) == selected


def test_select_by_neighbours_leaves_out_images_with_only_themselves_as_neighbours():
    # With 600 more images, which agree with themselves, the first column would have the most information.
    table = np.concatenate([TABLE[:, :2], np.array([[0, 0], [1, 0]] * 300, np.float32)])
    alone = np.repeat(np.arange(8, 608)[:, None], NEIGHBOURS.shape[1], axis=1)
    inputs = FeatureInputs(table, 0.0, torch.device("cpu"))
    assert select_by_neighbours(TableNetwork(), inputs, np.concatenate([NEIGHBOURS, alone])) == 1


def test_select_by_loss_returns_the_lowest_loss():
    assert select_by_loss(torch.tensor([0.3, 0.1, 0.2])) == 1


def test_select_subhead_uses_the_loss_without_neighbours_and_agreement_with_them():
    inputs = FeatureInputs(TABLE, 0.0, torch.device("cpu"))
    assert select_subhead(2, TableNetwork(), inputs, None) == 2
    assert select_subhead(2, TableNetwork(), inputs, NEIGHBOURS) == 1
