"""Showing the app: in a window of its own where an installed browser can do that, else in the usual browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path

_ON_PATH = (
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "microsoft-edge-stable",
    "chromium",
    "chromium-browser",
    "chrome",
    "msedge",
)
_ON_MAC = ("Google Chrome", "Microsoft Edge", "Chromium")
_ON_WINDOWS = (r"Google\Chrome\Application\chrome.exe", r"Microsoft\Edge\Application\msedge.exe")
_WINDOWS_PLACES = ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")


def window_browser() -> str | None:
    """The program of an installed Chrome, Edge or Chromium; these can show a page without tabs and address bar."""
    on_path = next(filter(None, map(shutil.which, _ON_PATH)), None)
    if on_path is not None:
        return on_path
    candidates: list[Path] = []
    if sys.platform == "darwin":
        homes = (Path("/Applications"), Path.home() / "Applications")
        candidates = [home / f"{name}.app" / "Contents" / "MacOS" / name for home in homes for name in _ON_MAC]
    elif os.name == "nt":
        places = [Path(os.environ[name]) for name in _WINDOWS_PLACES if name in os.environ]
        candidates = [place / program for program in _ON_WINDOWS for place in places]
    return next((str(file) for file in candidates if file.exists()), None)


def open_window(url: str) -> None:
    """A window of its own; the usual browser where none can be had."""
    program = window_browser()
    if program is None:
        webbrowser.open(url)
        return
    try:
        subprocess.Popen(
            [program, f"--app={url}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C for the app is not for the browser
        )
    except OSError:
        webbrowser.open(url)
