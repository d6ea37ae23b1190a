"""Prepared map workers: same map, one process per map, replacement after a kill, end with the caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from crlc.analysis.maps.process import MapProcess, load_or_compute_map
from crlc.analysis.maps.settings import MapSettings
from crlc.analysis.maps.worker_process import PREPARED_WORKER, close_map_worker, prepare_map_worker
from tests.conftest import ROOT
from tests.fixtures.features import make_clustered_features, make_two_groups

UMAP, TSNE, PCA = MapSettings("umap"), MapSettings("tsne"), MapSettings("pca")


@pytest.fixture(autouse=True)
def no_worker_afterwards() -> Iterator[None]:
    yield
    close_map_worker()


def get_waiting_process() -> subprocess.Popen[bytes]:
    worker = PREPARED_WORKER.waiting
    assert worker is not None
    return worker.process


def test_map_without_a_prepared_worker_leaves_no_process(tmp_path: Path):
    load_or_compute_map(make_two_groups()[0], PCA, tmp_path)
    assert PREPARED_WORKER.waiting is None


def test_prepared_worker_computes_the_same_map_and_is_replaced(tmp_path: Path):
    features = make_clustered_features(300)
    (tmp_path / "cold").mkdir()
    (tmp_path / "warm").mkdir()
    cold = load_or_compute_map(features, UMAP, tmp_path / "cold")
    prepare_map_worker()
    prepared = get_waiting_process()
    prepare_map_worker()
    assert get_waiting_process() is prepared  # not two of them
    with MapProcess(features, UMAP, tmp_path / "warm") as process:
        assert process.pid == prepared.pid
        warm = process.wait()
    assert warm is not None
    assert np.array_equal(warm, cold)
    assert prepared.poll() == 0
    assert get_waiting_process().pid != prepared.pid
    assert [path.suffix for path in (tmp_path / "warm").iterdir()] == [".npy"]


def test_prepared_worker_that_is_killed_while_it_waits_is_replaced(tmp_path: Path):
    features, _ = make_two_groups()
    prepare_map_worker()
    killed = get_waiting_process()
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait(60)
    with MapProcess(features, PCA, tmp_path) as process:
        assert process.pid != killed.pid
        assert process.wait() is not None
    assert get_waiting_process().poll() is None  # the next map does not wait for the start of a process


def test_prepared_worker_that_is_cancelled_is_replaced(tmp_path: Path):
    started = threading.Event()
    prepare_map_worker()
    prepared = get_waiting_process()
    process = MapProcess(make_clustered_features(3000), TSNE, tmp_path, report=lambda _: started.set())
    assert process.pid == prepared.pid
    assert started.wait(60)
    process.cancel()
    assert prepared.poll() is not None
    assert process.wait() is None
    assert list(tmp_path.iterdir()) == []
    replacement = get_waiting_process()
    with MapProcess(make_two_groups()[0], PCA, tmp_path) as process:
        assert process.pid == replacement.pid
        assert process.wait() is not None


def test_close_map_worker_ends_the_waiting_process(tmp_path: Path):
    prepare_map_worker()
    waiting = get_waiting_process()
    close_map_worker()
    assert waiting.poll() is not None
    assert PREPARED_WORKER.waiting is None
    load_or_compute_map(make_two_groups()[0], PCA, tmp_path)
    assert PREPARED_WORKER.waiting is None


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "sys.exit()"])
def test_prepared_worker_ends_with_its_caller(end: str):
    script = textwrap.dedent(f"""
        import os, sys
        from crlc.analysis.maps.worker_process import PREPARED_WORKER, prepare_map_worker
        prepare_map_worker()
        print(PREPARED_WORKER.waiting.process.pid, flush=True)
        {end}
    """)
    out = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False
    ).stdout
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(out)).wait(60)
