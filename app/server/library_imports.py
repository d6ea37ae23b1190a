"""Protection of the server's threads from torch while another thread is importing it.

SciPy and scikit-learn ask whether an argument is a `torch.Tensor` as soon as "torch" is in `sys.modules`. The import
takes seconds, in which this fails with an AttributeError in every other thread, such as the one that installs the
example. `torch.Tensor` therefore exists as an empty class from the beginning, which the import replaces.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


def protect_imports() -> None:
    """Let other threads use SciPy and scikit-learn while a thread imports torch."""
    if not any(isinstance(finder, _TorchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchFinder())


class _TorchFinder(MetaPathFinder):
    """Finds torch where Python finds it, and wraps its loader."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _TorchLoader(spec.loader)
        return spec


class _TorchLoader(Loader):
    """Creates an empty `torch.Tensor` before torch is executed."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
        self._loader.exec_module(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)  # readers of resources and sources
