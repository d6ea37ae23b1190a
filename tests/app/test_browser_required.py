"""Browser tests are skipped only without a browser, and never in CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.conftest import require_chromium
from tests.conftest import ROOT


def test_require_chromium_fails_in_ci_and_skips_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI must install one"):
        require_chromium()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no Chromium or Chrome on this computer"):
        require_chromium()
    (tmp_path / "chromium").touch(mode=0o755)
    assert require_chromium() == str(tmp_path / "chromium")


def test_browsers_are_started_only_in_conftest():
    starts = "sync_" + "playwright("
    files = [file for file in (ROOT / "tests").rglob("*.py") if starts in file.read_text(encoding="utf-8")]
    assert [str(file.relative_to(ROOT)) for file in files] == ["tests/app/conftest.py"]
