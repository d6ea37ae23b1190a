"""UMAP of a given graph against umap-learn: fuzzy graph, similarity curve, quality; numba's cache on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from crlc.analysis.maps.projections import compute_pca_map, compute_umap_map
from crlc.analysis.maps.umap_layout import build_fuzzy_graph, fit_similarity_curve
from crlc.analysis.neighbours.exact import Neighbours
from crlc.analysis.neighbours.graph import build_neighbour_graph
from tests.conftest import ROOT
from tests.fixtures.features import make_blobs, make_clustered_features

pytestmark = pytest.mark.slow

MAX_TRUSTWORTHINESS_LOSS = 0.01


def add_self(graph: Neighbours) -> tuple[np.ndarray, np.ndarray]:
    """Return indices and distances as umap-learn expects them: the first neighbour of a row is the row itself."""
    rows = np.arange(len(graph.positions))[:, None]
    distances = np.concatenate([np.zeros(rows.shape, np.float32), np.maximum(1 - graph.similarity, 0)], axis=1)
    return np.concatenate([rows, graph.positions], axis=1), distances.astype(np.float32)


@pytest.mark.parametrize("copies", [0, 5, 40])
def test_build_fuzzy_graph_matches_umap_learn(copies: int):
    from umap.umap_ import fuzzy_simplicial_set

    features = make_clustered_features(400)
    features[:copies] = features[0]
    graph = build_neighbour_graph(features, 14)
    # Copies have a similarity of 1 only up to rounding, which both would treat as a tiny distance.
    graph.similarity[graph.similarity > 1 - 1e-6] = 1
    indices, distances = add_self(graph)
    theirs = fuzzy_simplicial_set(features, 15, np.random.RandomState(0), "cosine", {}, indices, distances)[0]
    np.testing.assert_allclose(build_fuzzy_graph(graph).toarray(), theirs.toarray(), atol=2e-4)


@pytest.mark.parametrize("min_dist", [0.0, 0.1, 0.5, 1.0])
def test_fit_similarity_curve_matches_umap_learn(min_dist: float):
    from umap.umap_ import find_ab_params

    assert fit_similarity_curve(min_dist) == pytest.approx(find_ab_params(1.0, min_dist), rel=1e-6)


def load_features(name: str) -> np.ndarray:
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits().data.astype(np.float32)
    centres = np.random.default_rng(5).normal(size=(12, 64))
    return make_blobs([300] * 12, centres, spread=1.0)[0].astype(np.float32)


@pytest.mark.filterwarnings("ignore::UserWarning:umap")  # a seed limits it to one thread, it cannot transform
@pytest.mark.parametrize("name", ["digits", "blobs"])
def test_compute_umap_map_is_as_trustworthy_as_umap_learn(name: str):
    from sklearn.manifold import trustworthiness
    from umap import UMAP

    features = load_features(name)
    graph = build_neighbour_graph(features, 14)
    initial = compute_pca_map(features)
    theirs = UMAP(init=initial, random_state=0, precomputed_knn=add_self(graph)).fit(initial).embedding_
    ours = compute_umap_map(features, graph)
    trust = [trustworthiness(features, found, n_neighbors=15, metric="cosine") for found in (ours, theirs)]
    assert trust[0] > trust[1] - MAX_TRUSTWORTHINESS_LOSS


@pytest.mark.parametrize("min_dist", [0.0, 1.0])
def test_compute_umap_map_of_copies_is_finite_with_every_min_dist(min_dist: float):
    features = make_clustered_features(60)
    features[:40] = features[0]
    assert np.isfinite(compute_umap_map(features, min_dist=min_dist)).all()
    assert np.isfinite(compute_umap_map(np.ones((30, 4)), min_dist=min_dist)).all()


def test_compute_umap_map_accepts_a_read_only_graph():
    features = make_clustered_features(100)
    graph = build_neighbour_graph(features, 14)
    expected = compute_umap_map(features, graph)
    for array in graph:
        array.setflags(write=False)
    assert np.array_equal(compute_umap_map(features, graph), expected)


def test_compute_umap_map_ignores_a_damaged_or_missing_cache(tmp_path: Path):
    script = textwrap.dedent("""
        import sys
        import numpy as np
        from crlc.analysis.maps.projections import compute_umap_map
        from tests.fixtures.features import make_clustered_features
        np.save(sys.argv[1], compute_umap_map(make_clustered_features(100)))
    """)

    def compute_in_new_process(cache: Path) -> np.ndarray:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(cache)}
        subprocess.run([sys.executable, "-c", script, str(tmp_path / "map.npy")], env=environment, check=True)
        return np.load(tmp_path / "map.npy")

    cache = tmp_path / "cache"
    first = compute_in_new_process(cache)
    files = [path for path in cache.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    assert np.array_equal(compute_in_new_process(cache), first)  # from the cache
    for path in files:
        path.write_bytes(path.read_bytes()[:50])
    assert np.array_equal(compute_in_new_process(cache), first)
    (tmp_path / "file").touch()
    assert np.array_equal(compute_in_new_process(tmp_path / "file" / "no folder"), first)
