"""Installation of the requirements with uv or pip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from app.setup.environment import Environment
from app.setup.failures import SPACE_NEEDED, SetupError, explain_failure, get_last_line

HAS_CUDA_DEFAULT = sys.platform.startswith("linux")
"""Whether torch from PyPI has CUDA; elsewhere PyPI has builds of torch without it."""

_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_LOG_TAIL_BYTES = 200_000
_KILL_SIGNAL = 9  # the module signal has no SIGKILL on Windows


def install(environment: Environment, requirement_files: Sequence[Path], *, with_uv: bool = True) -> None:
    """Install the requirements with uv if there is one, else with pip; both show their own progress.

    Raises:
        SetupError: pip has failed.
    """
    uv = find_uv(environment) if with_uv else None
    print(
        f"Installing the packages that CRLC Studio needs with {'pip' if uv is None else 'uv'}, {SPACE_NEEDED}. "
        "This takes a few minutes, once.",
        flush=True,
    )
    started = time.monotonic()
    steps = [[part for file in requirement_files for part in ("-r", str(file))]]
    if environment.cpu_marker.exists():  # both at once, so that their versions fit; the next step leaves them alone
        steps.insert(0, ["torch", "torchvision", "--index-url", os.environ.get("CRLC_CPU_INDEX", _CPU_INDEX)])
    for arguments in steps:
        if uv is not None and not run_uv(uv, environment, arguments):
            print("uv has failed; installing with pip instead.", flush=True)
            uv = None
        if uv is None:
            run_pip(environment, arguments)
    print(f"Installed in {time.monotonic() - started:.0f} s.", flush=True)


def find_uv(environment: Environment) -> str | None:
    """Return the path of uv, which is faster than pip; None if it is missing or does not know the settings of pip."""
    uv = shutil.which("uv")
    if uv is None:
        return None
    # uv reads neither pip.conf nor PIP_INDEX_URL: it would not use the package server of a company, or its certificate.
    command = [str(environment.python), "-I", "-m", "pip", "config", "list", "--disable-pip-version-check"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    settings = listed.stdout.decode("utf-8", "replace")
    names = r"\.(index-url|extra-index-url|find-links|no-index|proxy|cert|client-cert|trusted-host)='[^']"
    return None if listed.returncode != 0 or re.search(names, settings) else uv


def run_uv(uv: str, environment: Environment, arguments: list[str]) -> bool:
    """Install packages with uv, and return whether that has succeeded."""
    # Nothing is compiled: what the first start of the app compiles takes seconds, all packages would take a minute.
    command = [uv, "pip", "install", "--python", str(environment.python), *arguments]
    try:
        return subprocess.run(command, check=False).returncode == 0
    except OSError:
        return False


def run_pip(environment: Environment, arguments: list[str]) -> None:
    """Install packages with pip.

    Raises:
        SetupError: pip has failed; the message explains the reason from its log.
    """
    log = environment.folder / "install.log"
    log.unlink(missing_ok=True)
    # -I: packages on PYTHONPATH would count as installed.
    options = ["--disable-pip-version-check", "--log", str(log)]
    command = [str(environment.python), "-I", "-m", "pip", "install", *options, *arguments]
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        raise SetupError(f"pip could not be started: {error}") from None
    if code != 0:
        text = find_errors(read_pip_log(log)) or describe_signal(code)
        otherwise = f"pip failed: {get_last_line(text)}. Its log: {log}"
        raise SetupError(explain_failure(text, otherwise, environment.root))


def describe_signal(code: int) -> str:
    """Return what ended a process without a message; Linux kills one that uses too much memory."""
    return "Not enough memory" if code == -_KILL_SIGNAL else ""


def read_pip_log(log: Path) -> str:
    """Return the end of the pip log, which contains the reason for a failure."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def find_errors(log: str) -> str:
    """Return the errors in the log of pip and, if it found no package at all, its failed connections."""
    lines = log.splitlines()
    errors = [line.split("ERROR: ", 1)[1] for line in lines if "ERROR: " in line]
    if any("No matching distribution" in line for line in errors):
        errors = [line for line in lines if "Retrying (" in line or "Could not fetch URL" in line] + errors
    return "\n".join(errors)
