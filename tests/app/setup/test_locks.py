"""Lock between two starts of the app."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest

from app.setup.locks import hold_setup_lock


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks with another call")
def test_setup_goes_on_where_the_file_system_has_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Such as a network drive that was mounted without them."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    has_entered = False
    with hold_setup_lock(tmp_path / ".venv.lock"):
        has_entered = True
    assert has_entered
