"""Tree of clusters: the order of merges, the level of the given clusters, and levels below and above it."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.cluster_tree import build_cluster_tree, compute_neighbour_joint, merge_stepwise
from crlc.errors import UsageError


def test_merge_stepwise_merges_the_pair_that_loses_the_least_information():
    # Small clusters 0 and 1 share many neighbours, 2 and 3 fewer, and none crosses between the two pairs.
    joint = np.array([[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 4, 1], [0, 0, 1, 4]]) / 20
    tree = merge_stepwise(joint, np.arange(4))
    assert tree.cluster_of[3].tolist() == [0, 0, 1, 2]
    assert tree.cluster_of[2].tolist() == [0, 0, 1, 1]
    assert tree.cluster_of[1].tolist() == [0, 0, 0, 0]
    assert tree.information[:2] == pytest.approx([0, np.log(2)])


def test_merge_stepwise_first_merges_the_parts_of_each_cluster():
    joint = np.array([[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 4, 1], [0, 0, 1, 4]]) / 20
    tree = merge_stepwise(joint, np.arange(4), np.array([0, 1, 0, 1]))  # parts that are not neighbours
    assert tree.cluster_of[2].tolist() == [0, 1, 0, 1]
    assert tree.cluster_of[1].tolist() == [0, 0, 0, 0]


def test_compute_neighbour_joint_counts_pairs_in_both_directions():
    joint = compute_neighbour_joint(np.array([0, 0, 1]), np.array([[1], [2], [1]]), 2)
    assert joint == pytest.approx(np.array([[2, 2], [2, 0]]) / 6)


def make_groups() -> tuple[np.ndarray, np.ndarray]:
    """Return six separate groups of 40 rows; each of three clusters has two groups, which are near each other."""
    generator = np.random.default_rng(0)
    far = 10 * np.eye(3, 8)
    near = np.zeros((2, 8))
    near[1, 6] = 3
    features = np.concatenate(
        [one + two + generator.normal(scale=0.2, size=(40, 8)) for one in far for two in near]
    ).astype(np.float32)
    return features, np.repeat([5, 2, 9], 80)


def test_build_cluster_tree_has_the_given_clusters_and_divides_them_into_their_groups():
    features, clusters = make_groups()
    tree, owner = build_cluster_tree(features, clusters)
    assert set(owner.tolist()) == {2, 5, 9}
    given = tree.cluster_of[3][tree.small_cluster]
    assert [len(np.unique(given[clusters == number])) for number in (5, 2, 9)] == [1, 1, 1]
    assert len(np.unique(given)) == 3
    groups = tree.cluster_of[6][tree.small_cluster].reshape(6, 40)
    assert (groups == groups[:, :1]).all()
    assert len(np.unique(groups[:, 0])) == 6
    for level in range(2, len(owner)):  # every level divides one cluster of the level above it
        fine, coarse = tree.cluster_of[level + 1], tree.cluster_of[level]
        assert len({(one, two) for one, two in zip(fine.tolist(), coarse.tolist(), strict=True)}) == level + 1


def test_build_cluster_tree_of_equal_images_and_of_one_image():
    tree, owner = build_cluster_tree(np.ones((60, 4), np.float32), np.repeat([0, 1], 30))
    assert owner.tolist() == [0, 1]
    assert tree.cluster_of[1].tolist() == [0, 0]
    with pytest.raises(UsageError, match="1 images"):
        build_cluster_tree(np.ones((1, 4), np.float32), np.zeros(1, np.int64))
