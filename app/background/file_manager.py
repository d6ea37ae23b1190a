"""The file manager of the computer that runs the server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_LINUX_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def build_reveal_command(file: Path, platform: str = sys.platform) -> list[str]:
    """Return the command that shows a file in its folder; on Linux, it opens the folder."""
    if platform == "darwin":
        return ["open", "-R", str(file)]
    if platform == "win32":
        return ["explorer", f"/select,{file}"]
    return ["xdg-open", str(file.parent)]


def can_reveal_files() -> bool:
    """Return whether this computer has a screen and a file manager."""
    has_screen = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in _LINUX_DISPLAYS)
    return has_screen and shutil.which(build_reveal_command(Path("file"))[0]) is not None


def reveal_file(file: Path) -> None:
    """Show a file in the file manager; nothing happens if there is none."""
    try:
        subprocess.Popen(
            build_reveal_command(file),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it outlives the server
        )
    except OSError:
        return
