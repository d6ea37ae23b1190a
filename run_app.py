"""Start CRLC Studio: `python run_app.py`. The first start installs everything that the app needs.

This file uses the standard library only and the syntax of Python 3.6, so that an old Python can run it and report that
it is too old. `python -m tests` also uses `prepare_environment`.
"""

import argparse
import csv
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
MIN_PYTHON = (3, 11)
SPACE_NEEDED = "about 7 GB (most of it torch; 2 GB without CUDA)"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
HAS_CUDA_DEFAULT = sys.platform.startswith("linux")  # elsewhere, PyPI has builds of torch without CUDA
MIN_FREE_BYTES = 20_000_000
LOG_TAIL_BYTES = 200_000

# Patterns in the log of pip, and their meaning for the user. The first match is shown.
FAILURES = (
    (
        r"No space left on device|Errno 28|not enough space|disk quota",
        "the disk is full: {space} are needed, {free} are free in {folder}",
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
        "permission denied while writing to {root}. Check the permissions of that folder",
    ),
)


class SetupError(Exception):
    """Raised when the environment cannot be prepared; the message gives the reason and the next step."""


def main(arguments=None):
    """Prepare the environment if needed, then run the app in place of this process."""
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
    options = parser.parse_args(arguments)
    try:
        python = prepare_environment([REQUIREMENTS], cpu=options.cpu)
    except SetupError as error:
        print("\nerror: {}".format(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The next start continues.", file=sys.stderr)
        return 1
    command = [str(python), "-P", "-m", "app"]  # -P: ignore a module `app` in the current folder
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
    return replace_process(command)


def prepare_environment(requirement_files, cpu=False):
    """Find or create a Python environment that has all requirements in the files.

    Args:
        requirement_files: files with the requirements.
        cpu: create an environment with a torch without CUDA, unless the interpreter of this process has everything.

    Returns:
        The path of its interpreter.

    Raises:
        SetupError: the environment could not be prepared.
    """
    check_python(sys.version_info)
    if not os.environ.get("CRLC_OWN_ENVIRONMENT") and has_requirements(requirement_files):
        return Path(sys.executable)
    python = get_interpreter(ENVIRONMENT)
    cpu = cpu and HAS_CUDA_DEFAULT
    if not is_ready(python, requirement_files, cpu):
        with hold_setup_lock():
            if not is_ready(python, requirement_files, cpu):  # another start may have finished the setup
                create_environment(python, cpu)
                remove_stamp()  # pip may be interrupted from here on
                remove_incomplete_packages()
                install(python, requirement_files)
                check_packages()
                write_stamp(python, requirement_files)
    return python


def check_python(version):
    """Check the version of Python.

    Raises:
        SetupError: the version is too old.
    """
    if tuple(version[:2]) < MIN_PYTHON:
        raise SetupError(
            "CRLC Studio needs Python {}.{} or later; this is {}.{} ({}). Install a current Python from python.org "
            "and start the app with it.".format(*MIN_PYTHON, *version[:2], sys.executable)
        )


# ---- the environment of the user


def has_requirements(requirement_files):
    """Return whether the interpreter that runs this file has all requirements (a venv or conda of the user)."""
    return all(is_satisfied(line) for file in requirement_files for line in read_requirements(file))


def read_requirements(file):
    """Return the requirements in a file, without comments."""
    lines = (line.split("#")[0].strip() for line in Path(file).read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def is_satisfied(requirement):
    """Return whether one `name` or `name>=version` is installed for this interpreter."""
    import importlib.metadata  # missing in old versions of Python, which must still be able to run this file

    name, _, lowest = requirement.partition(">=")
    try:
        found = importlib.metadata.version(name.strip())
    except importlib.metadata.PackageNotFoundError:
        return False
    return found is not None and parse_version(found) >= parse_version(lowest)  # None: partly deleted


def parse_version(version):
    """Return the numbers of a version for comparison: (2, 10) for `2.10.0+cu128`."""
    numbers = re.match(r"\d*(?:\.\d+)*", version.strip()).group()
    parts = [int(part) for part in numbers.split(".") if part]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


# ---- the environment that this file creates


def get_interpreter(environment):
    """Return the path of the interpreter of a virtual environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def get_stamp_file():
    """Return the file that is written last, so that an incomplete environment has none."""
    return ENVIRONMENT / "crlc-ready.json"


def get_cpu_marker():
    """Return the file that marks an environment whose torch has no CUDA, and never shall have."""
    return ENVIRONMENT / "crlc-cpu"


def is_ready(python, requirement_files, cpu):
    """Return whether the environment is complete, has all requirements, and its Python still runs."""
    if cpu and not get_cpu_marker().exists():
        return False
    stamp = read_stamp()
    required = {line for file in requirement_files for line in read_requirements(file)}
    if not required <= set(stamp["installed"]) or not has_packages(stamp["packages"]):
        return False
    return find_version(python) == stamp["python"] is not None


def read_stamp():
    """Return Python's version, the requirements and the packages of the environment; empty if it is incomplete."""
    try:
        stamp = json.loads(get_stamp_file().read_text(encoding="utf-8"))
        return {name: stamp[name] for name in ("python", "installed", "packages")}
    except (OSError, ValueError, TypeError, KeyError):
        return {"python": None, "installed": [], "packages": {}}


def remove_stamp():
    """Mark the environment as incomplete."""
    if get_stamp_file().exists():
        get_stamp_file().unlink()


def write_stamp(python, requirement_files):
    """Mark the environment as complete."""
    installed = {line for file in requirement_files for line in read_requirements(file)}
    temporary = get_stamp_file().with_suffix(".part")
    stamp = {"python": find_version(python), "installed": sorted(installed), "packages": describe_packages()}
    temporary.write_text(json.dumps(stamp), encoding="utf-8")
    os.replace(str(temporary), str(get_stamp_file()))


def list_packages():
    """Return the metadata folders (.dist-info) of all packages in the environment, without pip itself."""
    patterns = ("lib/python*/site-packages/*.dist-info", "Lib/site-packages/*.dist-info")
    found = {folder for pattern in patterns for folder in ENVIRONMENT.glob(pattern)}
    return sorted(folder for folder in found if not folder.name.startswith("pip-"))


def get_record(folder):
    """Return the list of the files of a package."""
    return folder / "RECORD"


def list_files(folder):
    """Return the files of a package, without compiled ones, which are made again; empty if their list is damaged."""
    try:
        with open(str(get_record(folder)), encoding="utf-8", newline="") as stream:
            names = [row[0] for row in csv.reader(stream) if row]
    except (OSError, ValueError, csv.Error):
        return []
    own = "{}/{}".format(folder.name, get_record(folder).name)
    return [name for name in names if not name.endswith(".pyc")] if own in names else []


def is_whole(folder):
    """Return whether a package has its list of files, and every file in it."""
    names = list_files(folder)
    return bool(names) and all(os.path.exists(str(folder.parent / name)) for name in names)


def describe_packages():
    """Return by package, which is its metadata folder: the bytes of its list of files, and its modules and folders."""
    found = {}
    for folder in list_packages():
        # Two levels are checked in milliseconds, all files in half a second.
        entries = {"/".join(name.split("/")[:2]) for name in list_files(folder) if not name.startswith("..")}
        name = folder.relative_to(ENVIRONMENT).as_posix()
        found[name] = [os.path.getsize(str(get_record(folder))), sorted(entries)]
    return found


def has_packages(described):
    """Return whether all packages that `describe_packages` returned are still there."""
    for name, (record_bytes, entries) in described.items():
        folder = ENVIRONMENT / name
        try:
            is_same = os.path.getsize(str(get_record(folder))) == record_bytes
        except OSError:
            return False
        site = str(folder.parent)
        if not is_same or not all(os.path.exists(os.path.join(site, entry)) for entry in entries):
            return False
    return bool(described)


def remove_incomplete_packages():
    """Remove the metadata of packages that a killed setup left incomplete: pip would regard them as installed."""
    for folder in list_packages():
        if not is_whole(folder):
            shutil.rmtree(str(folder))


def check_packages():
    """Check that every package is whole before the environment is marked as complete.

    Raises:
        SetupError: files of a package are missing.
    """
    incomplete = [folder.name.split("-")[0] for folder in list_packages() if not is_whole(folder)]
    if incomplete:
        raise SetupError(
            "the setup failed: files of {} are missing. Delete the folder {} and start again.".format(
                ", ".join(incomplete), ENVIRONMENT
            )
        )


def find_version(python, needed="sys"):
    """Return the version of an interpreter that runs and can import the module `needed`; otherwise `None`."""
    probe = "import sys, {}; print('%d.%d' % sys.version_info[:2])".format(needed)
    try:
        return subprocess.check_output([str(python), "-P", "-c", probe], stderr=subprocess.DEVNULL).decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def create_environment(python, cpu):
    """Create the virtual environment, unless there is one that works and has no CUDA if that is wanted."""
    found = find_version(python, needed="pip")
    is_usable = not cpu or get_cpu_marker().exists()
    if is_usable and found is not None and tuple(map(int, found.split("."))) >= MIN_PYTHON:
        return
    print("Creating an environment in {} ...".format(ENVIRONMENT), flush=True)
    # An existing one does not work: its setup was interrupted, its Python was removed, or it has CUDA.
    command = [sys.executable, "-P", "-m", "venv", "--clear", str(ENVIRONMENT)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.communicate()[0].decode("utf-8", "replace")
    if process.returncode == 0:
        if cpu:
            get_cpu_marker().touch()
        return
    if find_version(sys.executable, needed="ensurepip") is None:
        raise SetupError(
            "this Python lacks the modules that create environments. On Debian or Ubuntu: sudo apt install "
            "python3-venv. Otherwise install Python from python.org. ({})".format(sys.executable)
        )
    raise SetupError(explain(output, "the environment could not be created: {}".format(get_last_line(output))))


def install(python, requirement_files):
    """Install the requirements with uv if there is one, else with pip; both show their own progress."""
    uv = find_uv(python)
    print(
        "Installing the packages that CRLC Studio needs with {}, {}. This takes a few minutes, once.".format(
            "pip" if uv is None else "uv", SPACE_NEEDED
        ),
        flush=True,
    )
    started = time.monotonic()
    steps = [[part for file in requirement_files for part in ("-r", str(file))]]
    if get_cpu_marker().exists():  # both at once, so that their versions fit; the next step leaves them as they are
        index = os.environ.get("CRLC_CPU_INDEX", CPU_INDEX)
        steps.insert(0, ["torch", "torchvision", "--index-url", index])
    for arguments in steps:
        if uv is not None and not run_uv(uv, python, arguments):
            print("uv has failed; installing with pip instead.", flush=True)
            uv = None
        if uv is None:
            run_pip(python, arguments)
    print("Installed in {:.0f} s.".format(time.monotonic() - started), flush=True)


def find_uv(python):
    """Return the path of uv, which is faster than pip; None if it is missing or does not know the settings of pip."""
    uv = shutil.which("uv")
    if uv is None:
        return None
    # uv reads neither pip.conf nor PIP_INDEX_URL: it would not use the package server of a company, or its certificate.
    command = [str(python), "-P", "-m", "pip", "config", "list", "--disable-pip-version-check"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    settings = process.communicate()[0].decode("utf-8", "replace")
    names = r"\.(index-url|extra-index-url|find-links|no-index|proxy|cert|client-cert|trusted-host)='[^']"
    return None if process.returncode != 0 or re.search(names, settings) else uv


def run_uv(uv, python, arguments):
    """Install packages with uv, and return whether that has succeeded."""
    # Nothing is compiled: what the first start of the app compiles takes seconds, all packages would take a minute.
    command = [uv, "pip", "install", "--python", str(python)]
    try:
        return subprocess.run(command + arguments, check=False).returncode == 0
    except OSError:
        return False


def run_pip(python, arguments):
    """Install packages with pip.

    Raises:
        SetupError: pip has failed; the message explains the reason from its log.
    """
    log = ENVIRONMENT / "install.log"
    if log.exists():
        log.unlink()
    command = [str(python), "-P", "-m", "pip", "install", "--disable-pip-version-check", "--log", str(log)]
    try:
        code = subprocess.run(command + arguments, check=False).returncode
    except OSError as error:
        raise SetupError("pip could not be started: {}".format(error)) from None
    if code != 0:
        text = find_errors(read_log_tail(log))
        raise SetupError(explain(text, "pip failed: {}. Its log: {}".format(get_last_line(text), log)))


def read_log_tail(log):
    """Return the end of the pip log, which contains the reason for a failure."""
    try:
        with open(str(log), "rb") as stream:
            stream.seek(max(0, os.path.getsize(str(log)) - LOG_TAIL_BYTES))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def find_errors(log):
    """Return the errors in the log of pip and, if it found no package at all, its failed connections."""
    lines = log.splitlines()
    errors = [line.split("ERROR: ", 1)[1] for line in lines if "ERROR: " in line]
    if any("No matching distribution" in line for line in errors):
        errors = [line for line in lines if "Retrying (" in line or "Could not fetch URL" in line] + errors
    return "\n".join(errors)


def explain(output, otherwise):
    """Return a one-line explanation of the output of a failed command."""
    # pip unpacks in the temporary folder, which may be on a smaller disk.
    free, folder = min((shutil.disk_usage(folder).free, folder) for folder in (str(ROOT), tempfile.gettempdir()))
    for pattern, meaning in FAILURES:
        # On a full disk even the error may be missing from the log: the first entry covers that.
        if re.search(pattern, output, re.IGNORECASE) or free < MIN_FREE_BYTES:
            reason = meaning.format(
                space=SPACE_NEEDED,
                free="{:.1f} GB".format(free / 1e9),
                root=ROOT,
                folder=folder,
                python="{}.{}".format(*sys.version_info[:2]),
            )
            return "the setup failed: {}. The next start continues.".format(reason)
    return "the setup failed: {} The next start continues.".format(otherwise)


def get_last_line(output):
    """Return the last line that is not empty."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


@contextmanager
def hold_setup_lock():
    """Make a second start wait for the first; the system releases the lock when a process ends."""
    with open(str(ROOT / ".venv.lock"), "a+") as lock:
        try:
            lock_file(lock, wait=False)
        except OSError:
            print("Another start is installing the packages; waiting for it ...", flush=True)
            lock_file(lock, wait=True)
        yield


def lock_file(lock, wait):
    """Lock an open file, on any operating system."""
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


def replace_process(command):
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
