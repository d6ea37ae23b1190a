"""The process that the server prepares: started after a delay, not with little memory, ended with the server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import psutil
import pytest

from app.background import map_worker
from crlc.analysis.maps import worker_process
from crlc.analysis.maps.worker_process import PREPARED_WORKER, close_map_worker


@pytest.fixture(autouse=True)
def no_worker_afterwards() -> Iterator[None]:
    yield
    close_map_worker()


def set_available_memory(monkeypatch: pytest.MonkeyPatch, available: int) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=available))


def test_schedule_map_worker_starts_a_process_that_close_ends(monkeypatch: pytest.MonkeyPatch):
    started = threading.Event()
    prepare = worker_process.prepare_map_worker

    def prepare_and_signal() -> None:
        prepare()
        started.set()

    monkeypatch.setattr(worker_process, "prepare_map_worker", prepare_and_signal)
    set_available_memory(monkeypatch, 8_000_000_000)
    close = map_worker.schedule_map_worker(0)
    assert started.wait(60)
    worker = PREPARED_WORKER.waiting
    assert worker is not None
    close()
    assert worker.process.poll() is not None
    assert PREPARED_WORKER.waiting is None


def test_schedule_map_worker_closed_before_the_delay_starts_nothing(monkeypatch: pytest.MonkeyPatch):
    set_available_memory(monkeypatch, 8_000_000_000)
    close = map_worker.schedule_map_worker(3600)
    close()  # returns at once
    assert PREPARED_WORKER.waiting is None


def test_schedule_map_worker_starts_nothing_with_little_memory(monkeypatch: pytest.MonkeyPatch):
    checked = threading.Event()

    def check() -> SimpleNamespace:
        checked.set()
        return SimpleNamespace(available=1_000_000_000)

    monkeypatch.setattr(psutil, "virtual_memory", check)
    prepared: list[None] = []
    monkeypatch.setattr(worker_process, "prepare_map_worker", lambda: prepared.append(None))
    close = map_worker.schedule_map_worker(0)
    assert checked.wait(60)
    close()
    assert prepared == []
