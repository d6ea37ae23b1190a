"""A source with images that kill whoever reads them, as a faulty decoder would."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crlc.data.sources import Entry


@dataclass(frozen=True)
class CrashingSource:
    """Image n is n grey; the listed numbers crash the process."""

    count: int
    deadly: tuple[int, ...]
    kind: str = "folder"
    location: str = "crashing"
    has_folders: bool = False

    def entries(self) -> Iterator[Entry]:
        for number in range(self.count):
            yield Entry(f"{number:04d}", 1, "")

    def read(self, path: str) -> np.ndarray:
        if int(path) in self.deadly:
            os._exit(139)
        return np.full((4, 4), int(path) % 256, np.uint8)
