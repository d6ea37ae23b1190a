"""Maps in child processes: stored files, cancellation, failures, and callers that are killed."""

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

from crlc.analysis.maps.process import MapError, MapProcess, load_or_compute_map
from crlc.analysis.maps.projections import compute_pca_map, compute_tsne_map
from crlc.analysis.maps.settings import MapSettings, get_map_path, read_map, write_map
from crlc.analysis.neighbours.graph import build_neighbour_graph
from crlc.progress import Progress
from tests.conftest import ROOT
from tests.fixtures.features import make_clustered_features, make_two_groups

PCA = MapSettings("pca")


def test_load_or_compute_map_uses_a_stored_map(tmp_path: Path):
    features, _ = make_two_groups()
    first = load_or_compute_map(features, PCA, tmp_path)
    np.testing.assert_allclose(first, compute_pca_map(features))
    write_map(get_map_path(tmp_path, features, PCA), first + 1)  # shows that the file is read
    np.testing.assert_allclose(load_or_compute_map(features, PCA, tmp_path), first + 1)
    assert [path.name for path in tmp_path.iterdir()] == [get_map_path(tmp_path, features, PCA).name]


def test_load_or_compute_map_replaces_a_damaged_map(tmp_path: Path):
    features, _ = make_two_groups()
    path = get_map_path(tmp_path, features, PCA)
    good = load_or_compute_map(features, PCA, tmp_path)
    for content in (b"", b"rubbish", path.read_bytes()[:-5]):
        path.write_bytes(content)
        assert read_map(path, 120) is None
        np.testing.assert_allclose(load_or_compute_map(features, PCA, tmp_path), good)
    assert read_map(path, 119) is None


@pytest.mark.slow
def test_map_process_uses_the_memory_map_and_the_graph(tmp_path: Path):
    features, _ = make_two_groups()
    np.save(tmp_path / "z.npy", features)
    reports: list[Progress] = []
    coordinates = load_or_compute_map(
        np.load(tmp_path / "z.npy", mmap_mode="r"),
        MapSettings("tsne", perplexity=10),
        tmp_path,
        graph=build_neighbour_graph(features, 40),
        report=reports.append,
    )
    assert np.array_equal(coordinates, compute_tsne_map(features, perplexity=10))
    assert (reports[-1].stage, reports[-1].unit) == ("t-SNE", "rounds")
    assert reports[-1].finished
    assert len(list(tmp_path.iterdir())) == 2


def test_map_process_accepts_a_reversed_memory_map(tmp_path: Path):
    features, _ = make_two_groups()
    np.save(tmp_path / "z.npy", features)
    reversed_features = np.load(tmp_path / "z.npy", mmap_mode="r")[::-1]
    np.testing.assert_allclose(
        load_or_compute_map(reversed_features, PCA, tmp_path), compute_pca_map(features)[::-1], atol=1e-5
    )


def test_map_process_that_is_cancelled_leaves_no_files(tmp_path: Path):
    started = threading.Event()
    features = make_clustered_features(3000)
    process = MapProcess(features, MapSettings("tsne"), tmp_path, report=lambda _: started.set())
    assert process.wait(0) is None
    assert started.wait(60)
    assert process.is_running
    process.cancel()
    process.cancel()
    assert not process.is_running
    assert process.wait() is None
    assert list(tmp_path.iterdir()) == []


def test_map_process_that_is_killed_or_fails_raises(tmp_path: Path):
    started = threading.Event()
    process = MapProcess(make_clustered_features(3000), MapSettings("tsne"), tmp_path, report=lambda _: started.set())
    assert started.wait(60)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(MapError, match="code -9, perhaps for lack of memory"):
        process.wait()
    features, _ = make_two_groups()
    features[3, 3] = np.nan
    with pytest.raises(MapError, match="not finite"):
        load_or_compute_map(features, PCA, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_map_process_ends_when_its_caller_is_killed(tmp_path: Path):
    script = textwrap.dedent("""
        import os, sys, threading
        from pathlib import Path
        from crlc.analysis.maps.process import MapProcess
        from crlc.analysis.maps.settings import MapSettings
        from tests.fixtures.features import make_clustered_features
        started = threading.Event()
        folder, features = Path(sys.argv[1]), make_clustered_features(3000)
        process = MapProcess(features, MapSettings("tsne"), folder, report=lambda _: started.set())
        assert started.wait(60)
        print(process.pid, flush=True)
        os.kill(os.getpid(), 9)
    """)
    command = [sys.executable, "-c", script, str(tmp_path)]
    out = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    import psutil

    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(out)).wait(60)
    assert list(tmp_path.iterdir()) == []  # no map, and no input files of the caller
