"""Suggested number of clusters: merge costs against recomputation, and groups whose number is known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from crlc.analysis.class_metrics import compute_contingency
from crlc.analysis.cluster_count import (
    _compute_adjusted_rand_index,
    _find_highest,
    _find_step,
    suggest_cluster_count,
)
from crlc.analysis.cluster_tree import compute_information, compute_merge_costs, merge_pair
from crlc.errors import UsageError


def test_merge_cost_is_the_lost_information():
    random = np.random.default_rng(0).random((6, 6))
    joint = (random + random.T) / (random + random.T).sum()
    joint[2, 3] = joint[3, 2] = 0
    joint /= joint.sum()
    costs = compute_merge_costs(joint)
    assert np.isinf(costs.diagonal()).all()
    for first in range(6):
        for second in range(first + 1, 6):
            lost = compute_information(joint) - compute_information(merge_pair(joint, first, second))
            assert costs[first, second] == pytest.approx(lost, abs=1e-12)
            assert costs[second, first] == costs[first, second]


def test_compute_information_of_known_joint_matrices():
    assert compute_information(np.eye(2) / 2) == pytest.approx(np.log(2))
    assert compute_information(np.full((2, 2), 0.25)) == pytest.approx(0)
    assert compute_information(merge_pair(np.eye(4) / 4, 0, 1)) == pytest.approx(1.5 * np.log(2))


def make_groups(count: int, each: int = 80) -> np.ndarray:
    generator = np.random.default_rng(count)
    centres = 4 * generator.normal(size=(count, 12))
    return np.concatenate([centre + generator.normal(size=(each, 12)) for centre in centres]).astype(np.float32)


@pytest.mark.parametrize("count", [2, 3, 5, 8, 12])
def test_suggestion_is_the_number_of_separate_groups(count: int):
    found = suggest_cluster_count(make_groups(count))
    assert found.suggestion == count
    assert found.clearness > 0.8
    assert found.counts[0] == 2
    assert len(found.counts) == len(found.information) == len(found.added_fraction)
    assert (np.diff(found.information) >= -1e-9).all()
    assert found.added_fraction[count - 2] > 0.8 > found.added_fraction[count - 1]
    assert found.lowest == count <= found.highest <= count + 1
    assert found.agreement[count - 2] > 0.9


def test_suggestion_finds_many_groups_in_the_default_range():
    found = suggest_cluster_count(make_groups(40, 30))
    assert 38 <= found.suggestion <= 42


def test_adjusted_rand_index_equals_that_of_scikit_learn():
    generator = np.random.default_rng(1)
    one, two = generator.integers(4, size=300), generator.integers(3, size=300)
    two[:200] = one[:200] % 3
    assert _compute_adjusted_rand_index(compute_contingency(one, two)) == pytest.approx(adjusted_rand_score(one, two))
    assert _compute_adjusted_rand_index(compute_contingency(one, 3 - one)) == 1


def test_highest_plausible_count_needs_added_information_and_agreement():
    # The step is at 3 clusters: level 1 before, level 0 far beyond it.
    fractions = np.array([1.0, 1.0, 0.5, 0.4, 0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
    agreement = np.full(10, 0.8)
    assert _find_highest(fractions, agreement, 3) == 5
    agreement[3] = 0.5  # the seeds find different clusters with five
    assert _find_highest(fractions, agreement, 3) == 4
    assert _find_highest(fractions[:2], agreement[:2], 3) == 3


def test_suggestion_is_reproducible_by_seed():
    one, two = (suggest_cluster_count(make_groups(4), seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.added_fraction, two.added_fraction)


def test_step_prefers_fewer_clusters_among_similar_fits():
    assert _find_step(np.array([1.0, 1.0, 0.0, 0.0, 0.0]))[0] == 3
    assert _find_step(np.array([1.0, 1.0, 0.5, 0.0, 0.0, 0.0]))[0] == 3  # halfway: 3 and 4 fit equally well
    assert _find_step(np.full(5, 0.4))[1] == 0


def test_suggestion_refuses_few_images_and_a_small_range():
    with pytest.raises(UsageError, match="40 images.* 12"):
        suggest_cluster_count(make_groups(3, 4))
    with pytest.raises(UsageError, match="to try, 2, .* from 3 to 100"):
        suggest_cluster_count(make_groups(3), max_clusters=2)
