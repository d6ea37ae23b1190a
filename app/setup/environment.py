"""The virtual environment of the app: its files, its interpreter, and how it is created."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from app.setup.failures import SetupError, explain_failure, get_last_line
from app.setup.packages import is_whole, list_pip_packages

MIN_PYTHON = (3, 11)  # run_app.py and pyproject.toml have it, too


@dataclass(frozen=True)
class Environment:
    """Paths of a virtual environment."""

    folder: Path

    @property
    def root(self) -> Path:
        """Folder that contains the environment."""
        return self.folder.parent

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def stamp_file(self) -> Path:
        """File that marks it as complete."""
        return self.folder / "crlc-ready.json"

    @property
    def cpu_marker(self) -> Path:
        """File that marks an environment whose torch has no CUDA, and never shall have."""
        return self.folder / "crlc-cpu"

    @property
    def lock_file(self) -> Path:
        """File that is locked during the setup; outside of the environment, which the setup may delete."""
        return self.folder.with_name(self.folder.name + ".lock")


def create_environment(environment: Environment, *, cpu: bool) -> None:
    """Create a virtual environment, unless it exists, works, and has no CUDA if that is wanted.

    Raises:
        SetupError: it could not be created.
    """
    version = find_version(environment.python)
    has_wanted_torch = not cpu or environment.cpu_marker.exists()
    is_usable = version is not None and tuple(map(int, version.split("."))) >= MIN_PYTHON
    if has_wanted_torch and is_usable and ensure_pip(environment):
        return
    print(f"Creating an environment in {environment.folder} ...", flush=True)
    # An existing one does not work: its setup was interrupted, its Python was removed, or it has CUDA.
    command = [sys.executable, "-P", "-m", "venv", "--clear", str(environment.folder)]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if process.returncode != 0:
        if find_version(Path(sys.executable), needed="ensurepip") is None:
            raise SetupError(
                "this Python lacks the modules that create environments. On Debian or Ubuntu: sudo apt install "
                f"python3-venv. Otherwise install Python from python.org. ({sys.executable})"
            )
        output = process.stdout.decode("utf-8", "replace")
        otherwise = f"the environment could not be created: {get_last_line(output)}"
        raise SetupError(explain_failure(output, otherwise, environment.root))
    if cpu:
        environment.cpu_marker.touch()


def ensure_pip(environment: Environment) -> bool:
    """Install pip in an environment without it, such as one made by uv; return whether the whole of pip is there."""
    if not list_pip_packages(environment.folder) and find_version(environment.python, needed="pip") is None:
        command = [str(environment.python), "-I", "-m", "ensurepip"]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    # A setup that was interrupted may have left a part of pip, which cannot mend itself.
    return any(is_whole(package, with_sizes=False) for package in list_pip_packages(environment.folder))


def find_version(python: Path, needed: str = "sys") -> str | None:
    """Return the version of an interpreter that runs and can import the module `needed`; otherwise None."""
    probe = f"import sys, {needed}; print('%d.%d' % sys.version_info[:2])"
    try:
        # -I: a module on PYTHONPATH would count as one of the interpreter.
        output = subprocess.check_output([str(python), "-I", "-c", probe], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    return output.decode().strip()
