"""Loading of FAISS on systems where torch has another OpenMP library."""

from __future__ import annotations

import os
import sys

import pytest

from crlc.analysis.neighbours.faiss_library import load_faiss

VARIABLE = "KMP_DUPLICATE_LIB_OK"


@pytest.mark.parametrize(
    ("platform", "threads", "value"), [("linux", 2, None), ("win32", 2, "TRUE"), ("darwin", 1, "TRUE")]
)
def test_faiss_is_loaded_so_that_it_works_beside_torch(
    platform: str, threads: int, value: str | None, monkeypatch: pytest.MonkeyPatch
):
    faiss = load_faiss()
    before = faiss.omp_get_max_threads()
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    faiss.omp_set_num_threads(2)
    assert load_faiss() is faiss
    assert (faiss.omp_get_max_threads(), os.environ.get(VARIABLE)) == (threads, value)
    faiss.omp_set_num_threads(before)
    monkeypatch.delenv(VARIABLE, raising=False)
