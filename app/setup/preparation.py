"""Preparation of an interpreter that has all requirements: one of the user, or the environment of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from app.setup.environment import Environment, create_environment, find_version
from app.setup.failures import SetupError, explain_failure, get_last_line
from app.setup.installers import HAS_CUDA_DEFAULT, install
from app.setup.locks import hold_setup_lock
from app.setup.packages import has_packages, is_whole, list_packages, measure_packages, remove_incomplete_packages
from app.setup.requirements import is_satisfied, list_missing, normalize_package_name, read_requirements
from app.setup.stamp import Stamp, read_stamp, write_stamp

OWN_ENVIRONMENT = Environment(Path(__file__).resolve().parents[2] / ".venv")

# The largest packages and their modules, which are imported once before an environment is marked as complete.
_PROBED_MODULES = {
    "torch": "torch",
    "torchvision": "torchvision",
    "streamlit": "streamlit",
    "scikit-learn": "sklearn",
    "faiss-cpu": "faiss",
    "pillow": "PIL.Image",
}


def prepare_environment(requirement_files: Sequence[Path], *, cpu: bool = False) -> Path:
    """Find or create a Python environment that has all requirements in the files.

    Args:
        requirement_files: files with the requirements.
        cpu: create an environment with a torch without CUDA, unless the running interpreter has everything.

    Returns:
        The path of its interpreter.

    Raises:
        SetupError: the environment could not be prepared.
    """
    requirements = read_requirements(requirement_files)
    if not os.environ.get("CRLC_OWN_ENVIRONMENT") and all(map(is_satisfied, requirements)):
        return Path(sys.executable)  # in a venv or conda environment of the user
    environment = OWN_ENVIRONMENT
    cpu = cpu and HAS_CUDA_DEFAULT
    if not is_ready(environment, requirements, cpu=cpu):
        try:
            with hold_setup_lock(environment.lock_file):
                if not is_ready(environment, requirements, cpu=cpu):  # another start may have finished the setup
                    create_environment(environment, cpu=cpu)
                    install_requirements(environment, requirement_files)
        except OSError as error:  # such as a project folder that is read-only, or a disk that is full
            raise SetupError(explain_failure(str(error), f"{error}.", environment.root)) from None
    return environment.python


def is_ready(environment: Environment, requirements: list[str], *, cpu: bool) -> bool:
    """Return whether an environment is complete, has all requirements, and its Python still runs."""
    stamp = read_stamp(environment.stamp_file)
    if stamp is None or (cpu and not environment.cpu_marker.exists()):
        return False
    return (
        set(requirements) <= set(stamp.installed)
        and not list_missing(requirements, map(os.path.basename, stamp.packages))
        and has_packages(environment.folder, stamp.packages)
        and find_version(environment.python) == stamp.python is not None
    )


def install_requirements(environment: Environment, requirement_files: Sequence[Path]) -> None:
    """Install the requirements and all packages that are incomplete, check them, and mark the environment as complete.

    Raises:
        SetupError: the installation has failed, or packages are still incomplete after it.
    """
    environment.stamp_file.unlink(missing_ok=True)  # the installation may be interrupted from here on
    remove_incomplete_packages(environment.folder)
    install(environment, requirement_files)
    # uv links files to those in its cache: a file that was emptied in the environment is empty there, too.
    if remove_incomplete_packages(environment.folder):
        install(environment, requirement_files, with_uv=False)
    requirements = read_requirements(requirement_files)
    check_packages(environment, requirements)
    check_imports(environment, requirements)
    stamp = Stamp(find_version(environment.python), sorted(requirements), measure_packages(environment.folder))
    write_stamp(environment.stamp_file, stamp)


def check_packages(environment: Environment, requirements: list[str]) -> None:
    """Check that every required package is there, and that all packages have all their files.

    Sizes are not compared: files are as pip has just unpacked them, and two packages may have the same file.

    Raises:
        SetupError: a package or files of a package are missing.
    """
    packages = list_packages(environment.folder)
    incomplete = [package.name.split("-")[0] for package in packages if not is_whole(package, with_sizes=False)]
    incomplete += list_missing(requirements, [package.name for package in packages])
    if incomplete:
        raise SetupError(
            f"the setup failed: files of {', '.join(incomplete)} are missing. "
            f"Delete the folder {environment.folder} and start again."
        )


def check_imports(environment: Environment, requirements: list[str]) -> None:
    """Check that the largest of the required libraries can be imported.

    Raises:
        SetupError: one of them cannot be imported.
    """
    required = set(map(normalize_package_name, requirements))
    modules = ", ".join(module for name, module in _PROBED_MODULES.items() if name in required)
    if not modules:
        return
    command = [str(environment.python), "-P", "-c", f"import {modules}"]
    process = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if process.returncode != 0:
        reason = get_last_line(process.stderr.decode("utf-8", "replace"))
        raise SetupError(
            f"the setup failed: one of {modules} cannot be imported ({reason}). If a library of the system is missing, "
            f"install it; otherwise delete the folder {environment.folder}. Then start again."
        )
