"""Loading of FAISS, which needs care beside torch on macOS and Windows."""

from __future__ import annotations

import os
import sys
from typing import Any


def load_faiss() -> Any:
    """Import FAISS and return its module.

    The packages of torch and FAISS each contain an OpenMP library. On Linux they get along. On macOS and Windows, the
    second one ends the process unless the variable is set, and on macOS FAISS crashes with several threads
    (faiss-wheels issues 73 and 100).
    """
    if sys.platform in ("darwin", "win32"):
        os.environ.setdefault("KMP_DUPLICATE_LIB_OK", "TRUE")
    import faiss

    if sys.platform == "darwin":
        faiss.omp_set_num_threads(1)
    return faiss
