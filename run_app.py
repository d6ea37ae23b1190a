"""Start CRLC Studio: `python run_app.py`. The first start installs everything that the app needs.

This file has the syntax of Python 3.6, so that an old Python can run it and report that it is too old. After that check
it imports `app.setup`, which prepares the environment, also for `python -m tests`.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
REQUIREMENTS = ROOT / "requirements.txt"
MIN_PYTHON = (3, 11)


def main(arguments: "list[str] | None" = None) -> int:
    """Prepare the environment if needed, then run the app in place of this process."""
    check_python(sys.version_info[:2])
    options = parse_options(arguments)
    check_project(ROOT)
    sys.path.insert(0, str(ROOT))  # `app` may also be a module of the user
    from app.setup.failures import SetupError
    from app.setup.preparation import prepare_environment

    try:
        python = prepare_environment([REQUIREMENTS], cpu=options.cpu)
    except SetupError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The next start continues.", file=sys.stderr)
        return 1
    return replace_process([str(python), *build_app_arguments(options)])


def check_python(version: "tuple[int, ...]") -> None:
    """Exit with an explanation if a version of Python is too old."""
    if version < MIN_PYTHON:
        needed, found = (".".join(map(str, numbers)) for numbers in (MIN_PYTHON, version))
        raise SystemExit(
            f"\nerror: CRLC Studio needs Python {needed} or later; this is {found} ({sys.executable}). "
            "Install a current Python from python.org and start the app with it."
        )


def check_project(folder: Path) -> None:
    """Exit with an explanation if only a part of the project was downloaded."""
    missing = [name for name in ("app/setup/preparation.py", "requirements.txt") if not (folder / name).is_file()]
    if missing:
        raise SystemExit(
            f"\nerror: {folder} has no {' and no '.join(missing)}. "
            "Download the whole project, unpack it, and start run_app.py in its folder."
        )


def parse_options(arguments: "list[str] | None") -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description="Start CRLC Studio in the browser.")
    showing = parser.add_mutually_exclusive_group()
    showing.add_argument("--no-browser", action="store_true", help="do not open the browser")
    showing.add_argument("--window", action="store_true", help="open a separate window instead of a browser tab")
    parser.add_argument(
        "--host", help="address to listen on; default: this computer only. Other computers need a token"
    )
    parser.add_argument("--port", type=int, help="port to listen on; default: 8501, or any free port")
    parser.add_argument("--workspace", help="folder of datasets and runs; default: your user-data folder")
    parser.add_argument("--cpu", action="store_true", help="install torch without CUDA: 2 GB instead of 7 GB on Linux")
    return parser.parse_args(arguments)


def build_app_arguments(options: argparse.Namespace) -> "list[str]":
    """Return the arguments of the interpreter that runs the app."""
    arguments = ["-P", "-m", "app"]  # -P: ignore a module `app` in the current folder
    if options.no_browser:
        arguments.append("--no-browser")
    if options.window:
        arguments.append("--window")
    if options.host is not None:
        arguments += ["--host", options.host]
    if options.port is not None:
        arguments += ["--port", str(options.port)]
    if options.workspace is not None:
        arguments += ["--workspace", os.path.abspath(os.path.expanduser(options.workspace))]
    return arguments


def replace_process(command: "list[str]") -> int:
    """Run a command in place of this process (on Windows: as a child process)."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    if os.name != "nt":
        sys.stdout.flush()
        os.execve(command[0], command, environment)
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
