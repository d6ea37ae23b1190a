"""Label names matched to clusters, by hand and as CRLC-semi does it."""

from __future__ import annotations

import numpy as np

from crlc.analysis.label_matching import match_names_to_clusters
from crlc.training.semi import match_names_to_outputs


def test_match_names_to_clusters_uses_the_cluster_with_most_of_their_images():
    q = np.eye(3)[[0, 0, 1, 1, 1, 2]]
    found = match_names_to_clusters(q, np.array([0, 0, 1, 1, 1, 2]), ["b", "b", "a", "a", "b", "c"])
    assert found.names == ("a", "b", "c")
    assert found.clusters.tolist() == [1, 0, 2]
    assert found.unsupported == ()


def test_match_names_to_clusters_reports_unsupported_names():
    q = np.eye(2)[[0, 0, 0, 0]] * 0.8 + 0.1
    found = match_names_to_clusters(q, np.array([0, 0, 0, 0]), ["a", "a", "a", "b"])
    assert (found.clusters.tolist(), found.unsupported) == ([0, 1], ("b",))
    more = match_names_to_clusters(np.eye(2), np.array([0, 1]), ["a", "b"])
    assert more.unsupported == ()
    grown = match_names_to_clusters(np.eye(2)[[0, 1, 1]], np.array([0, 1, 1]), ["a", "b", "c"])
    assert sorted(grown.clusters.tolist()) == [0, 1, 2]


def test_match_names_to_clusters_equals_the_matching_of_training():
    generator = np.random.default_rng(0)
    for _ in range(20):
        q = generator.dirichlet(np.ones(4), size=60).astype(np.float32)
        clusters = q.argmax(axis=1).astype(np.int32)
        labelled = np.sort(generator.choice(60, 9, replace=False))
        names = [f"name {number}" for number in generator.integers(0, 5, 9)]
        theirs = match_names_to_outputs(q, clusters[:, None], 0, labelled, names)
        ours = match_names_to_clusters(q[labelled], clusters[labelled].astype(np.int64), names)
        assert ours.names == theirs.names
        assert ours.clusters.tolist() == theirs.outputs.tolist()
        assert ours.unsupported == theirs.unsupported
