"""Window of the app: a browser window without tabs if Chrome, Edge or Chromium is installed, else a browser tab."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path

_COMMANDS = (
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "microsoft-edge-stable",
    "chromium",
    "chromium-browser",
    "chrome",
    "msedge",
)
_MAC_APPS = ("Google Chrome", "Microsoft Edge", "Chromium")
_WINDOWS_PROGRAMS = (r"Google\Chrome\Application\chrome.exe", r"Microsoft\Edge\Application\msedge.exe")
_WINDOWS_FOLDER_VARIABLES = ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")


def find_window_browser() -> str | None:
    """Return the path of Chrome, Edge or Chromium, which can show a page without tabs and address bar."""
    on_path = next(filter(None, map(shutil.which, _COMMANDS)), None)
    if on_path is not None:
        return on_path
    candidates: list[Path] = []
    if sys.platform == "darwin":
        homes = (Path("/Applications"), Path.home() / "Applications")
        candidates = [home / f"{name}.app" / "Contents" / "MacOS" / name for home in homes for name in _MAC_APPS]
    elif os.name == "nt":
        folders = [Path(os.environ[name]) for name in _WINDOWS_FOLDER_VARIABLES if name in os.environ]
        candidates = [folder / program for program in _WINDOWS_PROGRAMS for folder in folders]
    return next((str(file) for file in candidates if file.exists()), None)


def open_window(url: str) -> None:
    """Open a URL in a window without tabs, or in the default browser."""
    program = find_window_browser()
    if program is None:
        webbrowser.open(url)
        return
    try:
        subprocess.Popen(
            [program, f"--app={url}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the app, not the browser
        )
    except OSError:
        webbrowser.open(url)
