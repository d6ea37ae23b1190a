"""Work that a page watches: how it goes, how it ends, and how it is ended."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from app.exploring.background import Work, begin, dismiss, work
from app.exploring.opened import open_run
from crlc.errors import UsageError
from crlc.progress import Progress
from crlc.workspace import Workspace
from crlc.workspace.run_files import maps_folder
from tests.app.tiny_run import tiny_dataset, tiny_run


def failing(error: Exception):
    def do(_: Work) -> None:
        raise error

    return do


def test_errors_are_told_and_dismissed():
    for error, words in ((UsageError("What to do."), "What to do."), (ValueError("x"), "Test failed: ValueError")):
        begin("test-errors", "Test", failing(error)).wait()
        assert work("test-errors").error.startswith(words)
        dismiss("test-errors")
        assert work("test-errors") is None


def test_the_same_work_is_done_once_and_can_be_cancelled():
    began, go_on = threading.Event(), threading.Event()

    def do(work: Work) -> None:
        began.set()
        go_on.wait(20)
        work.report(Progress("Step", 1, 2, 1.0))
        raise AssertionError("it was cancelled before")

    first = begin("test-once", "Test", do)
    assert began.wait(20)
    assert begin("test-once", "Test", do) is first
    dismiss("test-once")  # without effect while it runs
    assert work("test-once") is first
    first.cancel()
    go_on.set()
    first.wait(20)
    assert (first.running, first.error, first.progress.done) == (False, None, 1)
    dismiss("test-once")


def test_a_map_is_drawn_in_the_background_and_ended_at_once(workspace: Workspace, tmp_path: Path):
    run = tiny_run(workspace, tiny_dataset(workspace, tmp_path / "set"))
    for file in maps_folder(run).iterdir():
        file.unlink()
    subject = open_run(workspace, run)
    assert subject.places("pca") is None
    begin("test-map", "PCA map", lambda work: subject.draw("pca", work)).wait()
    assert work("test-map").error is None
    places = subject.places("pca")
    np.testing.assert_allclose(np.abs(places).max(), 1, atol=1e-6)
    ended = Work("t-SNE map", lambda work: subject.draw("tsne", work))
    ended.cancel()
    ended.wait()
    assert ended.error is None
    assert subject.places("tsne") is None
    assert [file.name for file in maps_folder(run).iterdir() if file.name.startswith(".")] == []
