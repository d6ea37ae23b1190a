"""Start CRLC Studio: `python run_app.py`. On the first start this sets everything up.

Standard library only, and written so that every Python 3.6 or later can read it, to be able to say what
is missing. The set-up half (`prepare_environment`) is used by `python -m tests` too.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv"
REQUIREMENTS = ROOT / "requirements.txt"
OLDEST_PYTHON = (3, 11)
SPACE_NEEDED = "about 7 GB (most of it torch; 2 GB where there is no CUDA build)"
ALMOST_NOTHING = 20_000_000
LOG_TAIL_BYTES = 200_000

# What pip's log says, and what that means for a person. The first that fits is shown.
FAILURES = (
    (
        r"No space left on device|Errno 28|not enough space|disk quota",
        "the disk is full: {space} are needed, {free} are free in {place}",
    ),
    (
        r"Failed to establish a new connection|Temporary failure in name resolution|getaddrinfo failed|"
        r"Name or service not known|Network is unreachable|Connection refused|ConnectTimeout|ReadTimeout|ProxyError",
        "the package server cannot be reached. Check the internet connection (or the proxy), then start again",
    ),
    (
        r"No matching distribution found|requires a different Python",
        "a package has no version for Python {python}, which may be too old or too new. "
        "Install Python 3.12 from python.org and start with that one",
    ),
    (
        r"Permission denied|Access is denied",
        "permission denied while writing to {root}. Check your rights on that folder",
    ),
)


class SetupError(Exception):
    """The environment could not be made ready; the message says why and what to do."""


def main(arguments=None):
    """Set up if needed, then become the app."""
    parser = argparse.ArgumentParser(description="Start CRLC Studio in the browser.")
    showing = parser.add_mutually_exclusive_group()
    showing.add_argument("--no-browser", action="store_true", help="do not open the browser")
    showing.add_argument("--window", action="store_true", help="open a window of its own instead of a browser's tab")
    parser.add_argument("--host", help="address to listen on; by default this computer only. Others need a token")
    parser.add_argument("--port", type=int, help="port to listen on; by default 8501, or any that is free")
    parser.add_argument("--workspace", help="where data sets and runs are kept; by default your user-data folder")
    options = parser.parse_args(arguments)
    try:
        python = prepare_environment([REQUIREMENTS])
    except SetupError as error:
        print("\nerror: {}".format(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The next start carries on.", file=sys.stderr)
        return 1
    command = [str(python), "-P", "-m", "app"]  # -P: not an `app` in the folder where somebody stands
    if options.no_browser:
        command.append("--no-browser")
    if options.window:
        command.append("--window")
    if options.host is not None:
        command += ["--host", options.host]
    if options.port is not None:
        command += ["--port", str(options.port)]
    if options.workspace is not None:
        command += ["--workspace", os.path.abspath(os.path.expanduser(options.workspace))]
    return become(command)


def prepare_environment(requirement_files):
    """Find or make a Python that has everything in the files.

    Returns:
        The path of its interpreter.

    Raises:
        SetupError: it could not be made ready.
    """
    check_python(sys.version_info)
    if not os.environ.get("CRLC_OWN_ENVIRONMENT") and satisfies_here(requirement_files):
        return Path(sys.executable)
    python = interpreter_of(ENVIRONMENT)
    if not is_ready(python, requirement_files):
        with only_one_setup():
            if not is_ready(python, requirement_files):  # another start may have just done it
                make_environment(python)
                remove_stamp()  # what pip does from here on may be cut off half way
                install(python, requirement_files)
                write_stamp(python, requirement_files)
    return python


def check_python(version):
    """Refuse a Python that is too old.

    Raises:
        SetupError: it is.
    """
    if tuple(version[:2]) < OLDEST_PYTHON:
        raise SetupError(
            "CRLC Studio needs Python {}.{} or later; this is {}.{} ({}). Install a current Python from python.org "
            "and start with that one.".format(*OLDEST_PYTHON, *version[:2], sys.executable)
        )


# ---- does somebody's own environment do?


def satisfies_here(requirement_files):
    """Whether the interpreter that runs this has everything already (somebody's own venv or conda)."""
    return all(is_satisfied(line) for file in requirement_files for line in requirement_lines(file))


def requirement_lines(file):
    """The requirements in a file, without comments."""
    lines = (line.split("#")[0].strip() for line in Path(file).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def is_satisfied(requirement):
    """Whether one `name` or `name>=version` is installed here."""
    import importlib.metadata  # unknown to the old Pythons that this file must be readable for

    name, _, lowest = requirement.partition(">=")
    try:
        found = importlib.metadata.version(name.strip())
    except importlib.metadata.PackageNotFoundError:
        return False
    return found is not None and release(found) >= release(lowest)  # None: half of it was deleted


def release(version):
    """The numbers of a version, comparable: `2.10.0+cu128` becomes (2, 10)."""
    numbers = re.match(r"\d*(?:\.\d+)*", version.strip()).group()
    parts = [int(part) for part in numbers.split(".") if part]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


# ---- our own environment


def interpreter_of(environment):
    """Where a virtual environment keeps its interpreter."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def stamp_file():
    """Written last, so that a half-made environment has none."""
    return ENVIRONMENT / "crlc-ready.json"


def is_ready(python, requirement_files):
    """Whether our environment was finished, has all that is asked for, and its Python still runs."""
    stamp = read_stamp()
    wanted = {line for file in requirement_files for line in requirement_lines(file)}
    return wanted <= set(stamp["installed"]) and version_of(python) == stamp["python"] is not None


def read_stamp():
    """What the environment says about itself; empty when it was never finished."""
    try:
        stamp = json.loads(stamp_file().read_text(encoding="utf-8"))
        return {"python": stamp["python"], "installed": stamp["installed"]}
    except (OSError, ValueError, TypeError, KeyError):
        return {"python": None, "installed": []}


def remove_stamp():
    """Declare the environment not ready."""
    if stamp_file().exists():
        stamp_file().unlink()


def write_stamp(python, requirement_files):
    """Declare the environment ready."""
    installed = {line for file in requirement_files for line in requirement_lines(file)}
    temporary = stamp_file().with_suffix(".part")
    temporary.write_text(json.dumps({"python": version_of(python), "installed": sorted(installed)}), encoding="utf-8")
    os.replace(str(temporary), str(stamp_file()))


def version_of(python, needed="sys"):
    """The version of an interpreter that runs and can import what is needed; `None` otherwise."""
    probe = "import sys, {}; print('%d.%d' % sys.version_info[:2])".format(needed)
    try:
        return subprocess.check_output([str(python), "-P", "-c", probe], stderr=subprocess.DEVNULL).decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def make_environment(python):
    """Make the virtual environment; keep the one there is if it works."""
    found = version_of(python, needed="pip")
    if found is not None and tuple(map(int, found.split("."))) >= OLDEST_PYTHON:
        return
    print("Making an environment in {} ...".format(ENVIRONMENT), flush=True)
    # Whatever is there does not work: an interrupted set-up, or a Python that is gone.
    command = [sys.executable, "-P", "-m", "venv", "--clear", str(ENVIRONMENT)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.communicate()[0].decode("utf-8", "replace")
    if process.returncode == 0:
        return
    if version_of(sys.executable, needed="ensurepip") is None:
        raise SetupError(
            "this Python lacks the modules that make environments. On Debian or Ubuntu: sudo apt install "
            "python3-venv. Otherwise install Python from python.org. ({})".format(sys.executable)
        )
    raise SetupError(explain(output, "the environment could not be made: {}".format(last_line(output))))


def install(python, requirement_files):
    """Let pip install, with its own progress bars; its log tells why if it fails."""
    print("Installing what CRLC Studio needs, {}; a few minutes, once.".format(SPACE_NEEDED), flush=True)
    log = ENVIRONMENT / "install.log"
    if log.exists():
        log.unlink()
    command = [str(python), "-P", "-m", "pip", "install", "--disable-pip-version-check", "--log", str(log)]
    for file in requirement_files:
        command += ["-r", str(file)]
    started = time.monotonic()
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        raise SetupError("pip could not be started: {}".format(error)) from None
    if code != 0:
        text = errors_in(log_tail(log))
        raise SetupError(explain(text, "pip failed: {}. Its log: {}".format(last_line(text), log)))
    print("Installed in {:.0f} s.".format(time.monotonic() - started), flush=True)


def log_tail(log):
    """The end of pip's log, where the reason stands."""
    try:
        with open(str(log), "rb") as stream:
            stream.seek(max(0, os.path.getsize(str(log)) - LOG_TAIL_BYTES))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def errors_in(log):
    """What pip's log calls errors; and, where it found nothing at all, its failed attempts to connect."""
    lines = log.splitlines()
    errors = [line.split("ERROR: ", 1)[1] for line in lines if "ERROR: " in line]
    if any("No matching distribution" in line for line in errors):
        errors = [line for line in lines if "Retrying (" in line or "Could not fetch URL" in line] + errors
    return "\n".join(errors)


def explain(output, otherwise):
    """Say in one line what a failed command's output means."""
    # pip unpacks in the temporary folder, which may be the smaller disk.
    free, place = min((shutil.disk_usage(place).free, place) for place in (str(ROOT), tempfile.gettempdir()))
    for pattern, meaning in FAILURES:
        # On a full disk the message itself may have found no room: the first entry is about that.
        if re.search(pattern, output, re.IGNORECASE) or free < ALMOST_NOTHING:
            reason = meaning.format(
                space=SPACE_NEEDED,
                free="{:.1f} GB".format(free / 1e9),
                root=ROOT,
                place=place,
                python="{}.{}".format(*sys.version_info[:2]),
            )
            return "setting up failed: {}. The next start carries on.".format(reason)
    return "setting up failed: {} The next start carries on.".format(otherwise)


def last_line(output):
    """The last line that says something."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


@contextmanager
def only_one_setup():
    """Let a second start wait for the first; the system lets go of the lock when a process dies."""
    with open(str(ROOT / ".venv.lock"), "a+") as lock:
        try:
            lock_file(lock, wait=False)
        except OSError:
            print("Another start is setting things up; waiting for it ...", flush=True)
            lock_file(lock, wait=True)
        yield


def lock_file(lock, wait):
    """Lock an open file, as this system does it."""
    if os.name == "nt":
        import msvcrt

        lock.seek(0)
        while True:
            try:
                return msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
            except OSError:
                if not wait:
                    raise
                time.sleep(1)
    import fcntl

    return fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def become(command):
    """Run a command in place of this process (on Windows: beside it)."""
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
