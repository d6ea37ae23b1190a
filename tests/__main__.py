"""Run every check: set up the environment as run_app.py does, then run ruff, mypy and pytest.

Usage: `python -m tests [--quick] [pytest arguments]`

`--quick` leaves out the tests marked `browser` or `slow`. Other arguments go to pytest: `python -m tests -k import`.
Test files run in parallel, one process per core.

If only tests in a browser fail, they run once more, one after the other, and their names are printed: on a busy
computer Streamlit drops a message of the browser if the next one follows at once. Any other failure is final.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import run_app

HERE = Path(__file__).resolve().parent
PARALLEL_OPTIONS = ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "loadfile", "--no-loadscope-reorder"]
FAILED_TESTS = run_app.ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
QUICK_OPTIONS = ["-m", "not browser and not slow"]


def main() -> int:
    """Run all checks in turn and return the exit code of the first that fails."""
    run_app.check_python(sys.version_info[:2])
    from app.setup.failures import SetupError
    from app.setup.preparation import prepare_environment

    try:
        python = prepare_environment([run_app.REQUIREMENTS, HERE / "requirements.txt"])
    except SetupError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The next start continues the setup.", file=sys.stderr)
        return 1
    arguments = [argument for argument in sys.argv[1:] if argument != "--quick"]
    quick = QUICK_OPTIONS if "--quick" in sys.argv[1:] else []
    pytest = ["pytest", *PARALLEL_OPTIONS, *quick, *arguments]
    FAILED_TESTS.unlink(missing_ok=True)
    for check in (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"], pytest):
        code = run_check(python, check)
        if code != 0:
            failed = list_failed_browser_tests() if check is pytest else []
            return run_check(python, ["pytest", *failed]) if failed else code
    return 0


def run_check(python: Path, check: list[str]) -> int:
    """Run one check, and return its exit code."""
    print(f"\n{' '.join(check)}", flush=True)
    return subprocess.run([str(python), "-m", *check], cwd=run_app.ROOT, check=False).returncode


def list_failed_browser_tests() -> list[str]:
    """Return the tests that have failed if all of them run in a browser; else none."""
    try:
        failed: list[str] = sorted(json.loads(FAILED_TESTS.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []
    files = [test.partition("::")[0] for test in failed]
    return failed if all(file.endswith("_browser.py") or "/stories/" in file for file in files) else []


if __name__ == "__main__":
    sys.exit(main())
