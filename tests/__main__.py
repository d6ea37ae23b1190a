"""Run every check: set up the environment as run_app.py does, then run ruff, mypy and pytest.

Usage: `python -m tests [--quick] [pytest arguments]`

`--quick` leaves out the tests marked `browser` or `slow`. Other arguments go to pytest: `python -m tests -k import`.
Test files run in parallel, one process per core.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import run_app

HERE = Path(__file__).resolve().parent
PARALLEL_OPTIONS = ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "loadfile"]
QUICK_OPTIONS = ["-m", "not browser and not slow"]


def main() -> int:
    """Run all checks in turn and return the exit code of the first that fails."""
    try:
        python = run_app.prepare_environment([run_app.REQUIREMENTS, HERE / "requirements.txt"])
    except run_app.SetupError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The next start continues the setup.", file=sys.stderr)
        return 1
    arguments = [argument for argument in sys.argv[1:] if argument != "--quick"]
    quick = QUICK_OPTIONS if "--quick" in sys.argv[1:] else []
    pytest = ["pytest", *PARALLEL_OPTIONS, *quick, *arguments]
    for check in (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"], pytest):
        print(f"\n{' '.join(check)}", flush=True)
        code = subprocess.run([str(python), "-m", *check], cwd=run_app.ROOT, check=False).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
