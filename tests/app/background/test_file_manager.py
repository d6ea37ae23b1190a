"""The file manager of this computer."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.background.file_manager import build_reveal_command, can_reveal_files


@pytest.mark.parametrize(
    ("platform", "command"),
    [
        ("darwin", ["open", "-R", "/home/me/a b.png"]),
        ("win32", ["explorer", "/select,/home/me/a b.png"]),
        ("linux", ["xdg-open", "/home/me"]),
    ],
)
def test_reveal_command_passes_the_path_as_one_argument(platform: str, command: list[str]):
    assert build_reveal_command(Path("/home/me/a b.png"), platform) == command


def test_files_cannot_be_revealed_without_a_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not can_reveal_files()
