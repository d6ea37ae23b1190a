"""The number of clusters: costs against recomputing, groups whose number is known, and what cannot be counted."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.cluster_count import _information, _merged, _step, merging_costs, suggest_cluster_count
from crlc.errors import UsageError


def test_the_cost_of_a_merger_is_the_information_that_is_lost():
    random = np.random.default_rng(0).random((6, 6))
    joint = (random + random.T) / (random + random.T).sum()
    joint[2, 3] = joint[3, 2] = 0
    joint /= joint.sum()
    costs = merging_costs(joint)
    assert np.isinf(costs.diagonal()).all()
    for first in range(6):
        for second in range(first + 1, 6):
            lost = _information(joint) - _information(_merged(joint, first, second))
            assert costs[first, second] == pytest.approx(lost, abs=1e-12)
            assert costs[second, first] == costs[first, second]


def test_information_by_hand():
    assert _information(np.eye(2) / 2) == pytest.approx(np.log(2))
    assert _information(np.full((2, 2), 0.25)) == pytest.approx(0)
    assert _information(_merged(np.eye(4) / 4, 0, 1)) == pytest.approx(1.5 * np.log(2))  # shares 1/2, 1/4, 1/4


def groups(count: int, each: int = 80) -> np.ndarray:
    generator = np.random.default_rng(count)
    centres = 4 * generator.normal(size=(count, 12))
    return np.concatenate([centre + generator.normal(size=(each, 12)) for centre in centres]).astype(np.float32)


@pytest.mark.parametrize("count", [2, 3, 5, 8, 12])
def test_groups_that_are_apart_are_counted(count: int):
    found = suggest_cluster_count(groups(count))
    assert found.suggestion == count
    assert found.clearness > 0.8
    assert found.counts[0] == 2
    assert len(found.counts) == len(found.information) == len(found.added_share)
    assert (np.diff(found.information) >= -1e-9).all()
    assert found.added_share[count - 2] > 0.8 > found.added_share[count - 1]


def test_the_same_seed_gives_the_same_curve():
    one, two = (suggest_cluster_count(groups(4), seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.added_share, two.added_share)


def test_of_fits_about_as_good_the_fewest_clusters_are_taken():
    assert _step(np.array([1.0, 1.0, 0.0, 0.0, 0.0]))[0] == 3
    assert _step(np.array([1.0, 1.0, 0.5, 0.0, 0.0, 0.0]))[0] == 3  # halfway: as good as four
    assert _step(np.full(5, 0.4))[1] == 0


def test_what_cannot_be_counted_is_said():
    with pytest.raises(UsageError, match="needs at least 40 images; there are 12"):
        suggest_cluster_count(groups(3, 4))
    with pytest.raises(UsageError, match="auto:2.* at least 3"):
        suggest_cluster_count(groups(3), most=2)
