"""Maps: PCA by hand and against scikit-learn, UMAP and t-SNE on the given neighbours, new images, processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from crlc.analysis.map_process import MapError, MapProcess, cached_map
from crlc.analysis.map_settings import MapSettings, map_file, read_map, write_map
from crlc.analysis.maps import neighbours_wanted, pca_map, place_new, tsne_map, umap_map
from crlc.analysis.nearest import Neighbours
from crlc.analysis.neighbours import neighbour_graph
from crlc.errors import UsageError
from crlc.progress import Progress
from tests.analysis.test_neighbours import clustered
from tests.conftest import ROOT

PCA = MapSettings("pca")


def two_groups(count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Rows around two opposite directions, and which is which."""
    random = np.random.default_rng(1)
    group = np.arange(count) % 2
    features = np.where(group[:, None] == 1, 1.0, -1.0) * np.eye(8)[0] + 0.2 * random.normal(size=(count, 8))
    return features / np.linalg.norm(features, axis=1, keepdims=True), group


def purity(places: np.ndarray, group: np.ndarray) -> float:
    """The share of nearest points on a map that are of the same group, by a plain loop."""
    same = 0
    for row in range(len(places)):
        distances = np.linalg.norm(places - places[row], axis=1)
        distances[row] = np.inf
        same += group[int(distances.argmin())] == group[row]
    return same / len(places)


def test_pca_by_hand():
    # Unit vectors: the first axis varies by 1, the second by 0.6, the third not at all.
    features = np.array([[1, 0, 0], [-1, 0, 0], [0, 0.6, 0.8], [0, -0.6, 0.8]])
    places = pca_map(np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]]) * np.array([5, 2, 1]))
    assert sorted(np.abs(places).sum(axis=1).tolist()) == pytest.approx([1, 1, 1, 1])
    np.testing.assert_allclose(np.abs(pca_map(features)[:2]), [[1, 0], [1, 0]], atol=1e-6)


def test_pca_against_scikit_learn():
    from sklearn.decomposition import PCA as Reference  # noqa: N811

    features = clustered(500)
    ours, theirs = pca_map(features), Reference(2, svd_solver="full").fit_transform(features)
    signs = np.sign((ours * theirs).sum(axis=0))
    np.testing.assert_allclose(ours, theirs * signs, atol=1e-4)
    assert ours.dtype == np.float32


def test_pca_of_one_dimension_and_of_one_row():
    assert pca_map(np.array([[1.0], [-1.0], [1.0]]))[:, 1].tolist() == [0, 0, 0]
    assert pca_map(np.array([[3.0, 4.0]])).tolist() == [[0, 0]]


@pytest.mark.parametrize("draw", [umap_map, tsne_map])
def test_groups_stay_apart_and_the_seed_fixes_the_map(draw):
    features, group = two_groups()
    places = draw(features, seed=3)
    assert places.shape == (120, 2)
    assert places.dtype == np.float32
    assert purity(places, group) == 1.0
    assert np.array_equal(draw(features, seed=3), places)
    assert not np.array_equal(draw(features, seed=4), places)


@pytest.mark.parametrize("draw", [umap_map, tsne_map])
def test_the_given_neighbours_are_what_counts(draw):
    features, _ = two_groups(80)
    # A graph that pairs up the first and the second half in rings, whatever the features say.
    half = np.arange(80) // 40
    steps = np.arange(1, 39)
    positions = half[:, None] * 40 + (np.arange(80)[:, None] + steps) % 40
    similarity = np.broadcast_to(np.linspace(0.9, 0.5, 38, dtype=np.float32), (80, 38))
    options = {"perplexity": 12} if draw is tsne_map else {}
    places = draw(features, Neighbours(positions, similarity), **options)
    assert purity(places, half) > 0.9


@pytest.mark.parametrize("draw", [umap_map, tsne_map])
@pytest.mark.parametrize("count", [1, 2, 7, 9])
def test_few_images(draw, count: int):
    places = draw(clustered(count))
    assert places.shape == (count, 2)
    assert np.isfinite(places).all()


@pytest.mark.parametrize("draw", [umap_map, tsne_map])
def test_copies_only(draw):
    assert np.isfinite(draw(np.ones((30, 4)))).all()


def test_progress_of_the_maps():
    features, _ = two_groups()
    for draw, stage, total in ((umap_map, "UMAP", 500), (tsne_map, "t-SNE", 750)):
        reports: list[Progress] = []
        draw(features, report=reports.append)
        mine = [report for report in reports if report.stage == stage]
        assert mine[-1].finished
        assert {(report.total, report.unit) for report in mine} == {(total, "rounds")}
        assert mine[-1].done == total


def test_wrong_graphs_and_settings():
    features, _ = two_groups()
    with pytest.raises(UsageError, match=r"\(120, 3\) .* at least 14"):
        umap_map(features, neighbour_graph(features, 3))
    with pytest.raises(UsageError, match="perplexity of 0"):
        tsne_map(features, perplexity=0)
    for wrong in ({"method": "som"}, {"seed": -1}, {"min_dist": 2}, {"perplexity": 0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            MapSettings(**wrong)
    assert neighbours_wanted("umap", 1000) == 14
    assert neighbours_wanted("tsne", 1000) == 90
    assert neighbours_wanted("tsne", 50) == 49
    assert neighbours_wanted("pca", 1000) == 0


def test_new_images_by_hand():
    places = np.array([[0, 0], [4, 0], [0, 8]], dtype=np.float32)
    # Distances 0.1, 0.1, 0.4: beyond the nearest 0, 0, 0.3 with mean 0.1, so weights 1, 1, e^-3.
    found = Neighbours(np.array([[0, 1, 2]]), np.array([[0.9, 0.9, 0.6]], dtype=np.float32))
    weight = np.exp(-3)
    expected = np.array([4, 8 * weight]) / (2 + weight)
    np.testing.assert_allclose(place_new(places, found)[0], expected, rtol=1e-4)
    copy = Neighbours(np.array([[1, 0, 2], [2, 0, 1]]), np.array([[1, 0.9, 0.6], [0.5, 0.5, 0.5]], dtype=np.float32))
    np.testing.assert_allclose(place_new(places, copy), [[4, 0], [4 / 3, 8 / 3]], rtol=1e-5)


def test_cache_is_used_and_depends_on_what_matters(tmp_path: Path):
    features, _ = two_groups()
    first = cached_map(features, PCA, tmp_path)
    np.testing.assert_allclose(first, pca_map(features))
    write_map(map_file(tmp_path, features, PCA), first + 1)  # to see that the file is what is read
    np.testing.assert_allclose(cached_map(features, PCA, tmp_path), first + 1)
    files = {
        map_file(tmp_path, features, PCA),
        map_file(tmp_path, features[::-1], PCA),
        *(map_file(tmp_path, features, MapSettings("umap", seed=seed)) for seed in (0, 1)),
        *(map_file(tmp_path, features, MapSettings("tsne", perplexity=value)) for value in (10, 20)),
    }
    assert len(files) == 6
    assert map_file(tmp_path, features, MapSettings("pca", seed=9)) == map_file(tmp_path, features, PCA)
    assert [path.name for path in tmp_path.iterdir()] == [map_file(tmp_path, features, PCA).name]


def test_damaged_cache_is_computed_again(tmp_path: Path):
    features, _ = two_groups()
    path = map_file(tmp_path, features, PCA)
    good = cached_map(features, PCA, tmp_path)
    for content in (b"", b"rubbish", path.read_bytes()[:-5]):
        path.write_bytes(content)
        assert read_map(path, 120) is None
        np.testing.assert_allclose(cached_map(features, PCA, tmp_path), good)
    assert read_map(path, 119) is None


def test_tsne_in_a_process_from_a_memory_map_with_its_graph(tmp_path: Path):
    features, group = two_groups()
    np.save(tmp_path / "z.npy", features)
    reports: list[Progress] = []
    places = cached_map(
        np.load(tmp_path / "z.npy", mmap_mode="r"),
        MapSettings("tsne", perplexity=10),
        tmp_path,
        graph=neighbour_graph(features, 40),
        report=reports.append,
    )
    assert np.array_equal(places, tsne_map(features, perplexity=10))
    assert purity(places, group) == 1.0
    assert (reports[-1].stage, reports[-1].unit) == ("t-SNE", "rounds")
    assert reports[-1].finished
    assert len(list(tmp_path.iterdir())) == 2


def test_turned_memory_map_is_not_taken_for_its_file(tmp_path: Path):
    features, _ = two_groups()
    np.save(tmp_path / "z.npy", features)
    turned = np.load(tmp_path / "z.npy", mmap_mode="r")[::-1]
    np.testing.assert_allclose(cached_map(turned, PCA, tmp_path), pca_map(features)[::-1], atol=1e-5)


def test_cancelled_map_leaves_nothing(tmp_path: Path):
    started = threading.Event()
    features = clustered(3000)
    process = MapProcess(features, MapSettings("tsne"), tmp_path, report=lambda _: started.set())
    assert process.wait(0) is None
    assert started.wait(60)
    assert process.running
    process.cancel()
    process.cancel()
    assert not process.running
    assert process.wait() is None
    assert list(tmp_path.iterdir()) == []


def test_killed_and_failing_processes_say_so(tmp_path: Path):
    started = threading.Event()
    process = MapProcess(clustered(3000), MapSettings("tsne"), tmp_path, report=lambda _: started.set())
    assert started.wait(60)
    os.kill(process._process.pid, signal.SIGKILL)
    with pytest.raises(MapError, match="code -9, perhaps for lack of memory"):
        process.wait()
    features, _ = two_groups()
    features[3, 3] = np.nan
    with pytest.raises(MapError, match="not finite"):
        cached_map(features, PCA, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_process_ends_with_its_caller(tmp_path: Path):
    script = textwrap.dedent("""
        import os, sys, threading
        from pathlib import Path
        from crlc.analysis.map_process import MapProcess
        from crlc.analysis.map_settings import MapSettings
        from tests.analysis.test_neighbours import clustered
        started = threading.Event()
        process = MapProcess(clustered(3000), MapSettings("tsne"), Path(sys.argv[1]), report=lambda _: started.set())
        started.wait(60)
        print(process._process.pid, flush=True)
        os.kill(os.getpid(), 9)
    """)
    command = [sys.executable, "-c", script, str(tmp_path)]
    out = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    import psutil

    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(out)).wait(10)
    assert list(tmp_path.iterdir()) == []  # what the caller put there for it, too
