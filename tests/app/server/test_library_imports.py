"""Tests of app/server/library_imports.py, in processes of their own: libraries are imported once per process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from crlc.subprocesses import python_environment

# Its import lasts until the test lets it go on.
SLOW_TORCH = """
import __main__
__main__.started.set()
assert __main__.proceed.wait(60)
class Tensor:
    "The real type."
"""
SCRIPT = """
import sys, threading
started, proceed = threading.Event(), threading.Event()
sys.path.insert(0, sys.argv[1])
if sys.argv[2] == "protected":
    from app.server.library_imports import protect_imports
    protect_imports()
importing = threading.Thread(target=__import__, args=("torch",), daemon=True)
importing.start()
assert started.wait(60)
try:
    import numpy as np
    from sklearn.cluster import KMeans
    labels = KMeans(2, n_init=1, random_state=0).fit_predict(np.float32([[0], [0], [9], [9]]))
    assert labels[0] == labels[1] != labels[2] == labels[3]
    assert importing.is_alive()
finally:
    proceed.set()
    importing.join()
assert sys.modules["torch"].Tensor.__doc__ == "The real type."
"""


def use_scikit_learn_during_import(folder: Path, mode: str) -> subprocess.CompletedProcess[str]:
    (folder / "torch.py").write_text(SLOW_TORCH, encoding="utf-8")
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(folder / "script.py"), str(folder), mode]
    return subprocess.run(command, capture_output=True, text=True, env=python_environment(), timeout=300, check=False)


def test_scikit_learn_works_while_another_thread_imports_torch(tmp_path: Path):
    process = use_scikit_learn_during_import(tmp_path, "protected")
    assert process.returncode == 0, process.stderr


def test_scikit_learn_fails_without_the_protection(tmp_path: Path):
    # If this fails, SciPy has become robust, and app/server/library_imports.py can go.
    process = use_scikit_learn_during_import(tmp_path, "unprotected")
    assert process.returncode != 0
    assert "has no attribute 'Tensor'" in process.stderr


def test_pages_import_neither_torch_nor_scikit_learn():
    script = (
        "import importlib, pkgutil, sys, app.pages\n"
        "for page in pkgutil.iter_modules(app.pages.__path__): importlib.import_module('app.pages.' + page.name)\n"
        "print(*sorted({'torch', 'sklearn', 'scipy'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, capture_output=True, text=True, env=python_environment(), timeout=300, check=True)
    assert process.stdout.split() == []
