"""`python -m tests`: sets up like run_app.py, then runs ruff, mypy and pytest.

Arguments go to pytest: `python -m tests -k import`. Files of tests run side by side.
"""

import os
import subprocess
import sys
from pathlib import Path

import run_app

HERE = Path(__file__).resolve().parent
SIDE_BY_SIDE = ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "loadfile"]


def main() -> int:
    try:
        python = run_app.prepare_environment([run_app.REQUIREMENTS, HERE / "requirements.txt"])
    except run_app.SetupError as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The next start carries on.", file=sys.stderr)
        return 1
    tests = ["pytest", *SIDE_BY_SIDE, *sys.argv[1:]]
    for check in (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"], tests):
        print(f"\n{' '.join(check)}", flush=True)
        code = subprocess.run([str(python), "-m", *check], cwd=run_app.ROOT, check=False).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
