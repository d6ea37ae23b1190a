"""Names matched to clusters, by hand and as CRLC-semi does it."""

from __future__ import annotations

import numpy as np

from crlc.analysis.name_matching import matched_names
from crlc.training.semi import match_names


def test_each_name_gets_the_cluster_with_most_of_its_images():
    q = np.eye(3)[[0, 0, 1, 1, 1, 2]]
    found = matched_names(q, np.array([0, 0, 1, 1, 1, 2]), ["b", "b", "a", "a", "b", "c"])
    assert found.names == ("a", "b", "c")
    assert found.clusters.tolist() == [1, 0, 2]
    assert found.far == ()


def test_a_name_whose_images_lie_under_another_name_is_far():
    q = np.eye(2)[[0, 0, 0, 0]] * 0.8 + 0.1
    found = matched_names(q, np.array([0, 0, 0, 0]), ["a", "a", "a", "b"])
    assert (found.clusters.tolist(), found.far) == ([0, 1], ("b",))
    more = matched_names(np.eye(2), np.array([0, 1]), ["a", "b"])
    assert more.far == ()
    grown = matched_names(np.eye(2)[[0, 1, 1]], np.array([0, 1, 1]), ["a", "b", "c"])
    assert sorted(grown.clusters.tolist()) == [0, 1, 2]


def test_it_says_what_the_training_will_do():
    generator = np.random.default_rng(0)
    for _ in range(20):
        q = generator.dirichlet(np.ones(4), size=60).astype(np.float32)
        clusters = q.argmax(axis=1).astype(np.int32)
        labelled = np.sort(generator.choice(60, 9, replace=False))
        names = [f"name {number}" for number in generator.integers(0, 5, 9)]
        theirs = match_names(q, clusters[:, None], 0, labelled, names)
        ours = matched_names(q[labelled], clusters[labelled].astype(np.int64), names)
        assert ours.names == theirs.names
        assert ours.clusters.tolist() == theirs.outputs.tolist()
        assert ours.far == theirs.far
