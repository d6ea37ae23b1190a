"""PCA by hand and against scikit-learn, UMAP and t-SNE on a given graph, and coordinates of new images."""

from __future__ import annotations

import numpy as np
import pytest

from crlc.analysis.maps.projections import (
    compute_pca_map,
    compute_tsne_map,
    compute_umap_map,
    count_needed_neighbours,
    place_new_images,
)
from crlc.analysis.neighbours.exact import Neighbours
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.errors import UsageError
from crlc.progress import Progress
from tests.fixtures.features import make_clustered_features, make_two_groups

pytestmark = pytest.mark.slow


def measure_purity(coordinates: np.ndarray, group: np.ndarray) -> float:
    """Return the fraction of points whose nearest point on the map is of the same group, by a loop."""
    same = 0
    for row in range(len(coordinates)):
        distances = np.linalg.norm(coordinates - coordinates[row], axis=1)
        distances[row] = np.inf
        same += group[int(distances.argmin())] == group[row]
    return same / len(coordinates)


def test_pca_finds_known_directions():
    # Unit vectors: the first axis varies by 1, the second by 0.6, the third not at all.
    features = np.array([[1, 0, 0], [-1, 0, 0], [0, 0.6, 0.8], [0, -0.6, 0.8]])
    coordinates = compute_pca_map(np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]]) * np.array([5, 2, 1]))
    assert sorted(np.abs(coordinates).sum(axis=1).tolist()) == pytest.approx([1, 1, 1, 1])
    np.testing.assert_allclose(np.abs(compute_pca_map(features)[:2]), [[1, 0], [1, 0]], atol=1e-6)


def test_pca_matches_scikit_learn():
    from sklearn.decomposition import PCA as Reference  # noqa: N811

    features = make_clustered_features(500)
    ours, theirs = compute_pca_map(features), Reference(2, svd_solver="full").fit_transform(features)
    signs = np.sign((ours * theirs).sum(axis=0))
    np.testing.assert_allclose(ours, theirs * signs, atol=1e-4)
    assert ours.dtype == np.float32


def test_pca_accepts_one_dimension_and_one_row():
    assert compute_pca_map(np.array([[1.0], [-1.0], [1.0]]))[:, 1].tolist() == [0, 0, 0]
    assert compute_pca_map(np.array([[3.0, 4.0]])).tolist() == [[0, 0]]


@pytest.mark.parametrize("compute_map", [compute_umap_map, compute_tsne_map])
def test_umap_and_tsne_separate_groups_reproducibly(compute_map):
    features, group = make_two_groups()
    coordinates = compute_map(features, seed=3)
    assert coordinates.shape == (120, 2)
    assert coordinates.dtype == np.float32
    assert measure_purity(coordinates, group) == 1.0
    assert np.array_equal(compute_map(features, seed=3), coordinates)
    assert not np.array_equal(compute_map(features, seed=4), coordinates)


@pytest.mark.parametrize("compute_map", [compute_umap_map, compute_tsne_map])
def test_umap_and_tsne_use_the_given_graph(compute_map):
    features, _ = make_two_groups(80)
    # A graph with neighbours inside the first half and inside the second half, independent of the features.
    half = np.arange(80) // 40
    steps = np.arange(1, 39)
    positions = half[:, None] * 40 + (np.arange(80)[:, None] + steps) % 40
    similarity = np.broadcast_to(np.linspace(0.9, 0.5, 38, dtype=np.float32), (80, 38))
    options = {"perplexity": 12} if compute_map is compute_tsne_map else {}
    coordinates = compute_map(features, Neighbours(positions, similarity), **options)
    assert measure_purity(coordinates, half) > 0.9


@pytest.mark.parametrize("compute_map", [compute_umap_map, compute_tsne_map])
@pytest.mark.parametrize("count", [1, 2, 7, 9])
def test_umap_and_tsne_accept_few_images(compute_map, count: int):
    coordinates = compute_map(make_clustered_features(count))
    assert coordinates.shape == (count, 2)
    assert np.isfinite(coordinates).all()


@pytest.mark.parametrize("compute_map", [compute_umap_map, compute_tsne_map])
def test_umap_and_tsne_of_copies_are_finite(compute_map):
    assert np.isfinite(compute_map(np.ones((30, 4)))).all()


def test_umap_and_tsne_report_progress():
    features, _ = make_two_groups()
    for compute_map, stage, total in ((compute_umap_map, "UMAP", 500), (compute_tsne_map, "t-SNE", 750)):
        reports: list[Progress] = []
        compute_map(features, report=reports.append)
        mine = [report for report in reports if report.stage == stage]
        assert mine[-1].finished
        assert {(report.total, report.unit) for report in mine} == {(total, "rounds")}
        assert mine[-1].done == total


def test_umap_and_tsne_refuse_wrong_graphs_and_perplexity():
    features, _ = make_two_groups()
    with pytest.raises(UsageError, match=r"\(120, 3\) .* at least 14"):
        compute_umap_map(features, build_neighbour_graph(features, 3))
    with pytest.raises(UsageError, match="perplexity=0 "):
        compute_tsne_map(features, perplexity=0)


def test_count_needed_neighbours_depends_on_method_and_images():
    assert count_needed_neighbours("umap", 1000) == 14
    assert count_needed_neighbours("tsne", 1000) == 90
    assert count_needed_neighbours("tsne", 50) == 49
    assert count_needed_neighbours("pca", 1000) == 0


def test_place_new_images_by_weighted_neighbours():
    coordinates = np.array([[0, 0], [4, 0], [0, 8]], dtype=np.float32)
    # Distances 0.1, 0.1, 0.4: beyond the nearest 0, 0, 0.3 with mean 0.1, so weights 1, 1, e^-3.
    found = Neighbours(np.array([[0, 1, 2]]), np.array([[0.9, 0.9, 0.6]], dtype=np.float32))
    weight = np.exp(-3)
    expected = np.array([4, 8 * weight]) / (2 + weight)
    np.testing.assert_allclose(place_new_images(coordinates, found)[0], expected, rtol=1e-4)
    copy = Neighbours(np.array([[1, 0, 2], [2, 0, 1]]), np.array([[1, 0.9, 0.6], [0.5, 0.5, 0.5]], dtype=np.float32))
    np.testing.assert_allclose(place_new_images(coordinates, copy), [[4, 0], [4 / 3, 8 / 3]], rtol=1e-5)
