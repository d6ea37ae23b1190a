"""The test command itself: which failures are repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import __main__ as command


@pytest.mark.parametrize(
    ("failed", "repeated"),
    [
        (["tests/app/pages/test_a_browser.py::test_b", "tests/app/stories/test_c.py::test_d[x/y]"], 2),
        (["tests/app/pages/test_a_browser.py::test_b", "tests/data/test_e.py::test_f"], 0),
        (["tests/data/test_e.py::test_f"], 0),
    ],
)
def test_only_failures_in_the_browser_are_repeated(
    failed: list[str], repeated: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "lastfailed"
    monkeypatch.setattr(command, "FAILED_TESTS", file)
    assert command.list_failed_browser_tests() == []
    file.write_text(json.dumps(dict.fromkeys(failed, True)))
    assert len(command.list_failed_browser_tests()) == repeated
