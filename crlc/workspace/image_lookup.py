"""Images by what people write for them: a path inside the source, a path on this computer, or an id."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crlc.data.dataset import ImageDataset
from crlc.data.manifest import ImageRecord, Manifest
from crlc.data.sources.table import as_windows_text
from crlc.errors import NotFoundError
from crlc.names import from_printable, from_spreadsheet_safe, path_from_bytes, printable

_COMPARED = 20_000


class ImageLookup:
    """Finds the readable images of a data set; use it as a context."""

    def __init__(self, dataset: ImageDataset, base: Path | None = None) -> None:
        """Open the manifest.

        Args:
            dataset: whose images.
            base: the folder that relative paths may start from as well; by default the current one.
        """
        self._name = dataset.name
        self._manifest = Manifest(dataset.folder)
        self._base = os.path.abspath(base or ".")
        location = dataset.info.location
        roots = {"folder": location, "csv": os.path.dirname(location)}
        self._root = roots.get(dataset.info.source_kind)

    def __enter__(self) -> ImageLookup:
        """Use as a context that closes the manifest."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the manifest."""
        self._manifest.__exit__(kind, error, trace)

    def by_path(self, text: str) -> int | None:
        """The image at a path, however it is written: relative or absolute, escaped or not."""
        found = (self._manifest.id_at(path) for path in self._readings(text))
        return next((number for number in found if number is not None), None)

    def by_id(self, text: str) -> int | None:
        """The image with an id."""
        if not (text.isascii() and text.isdigit()):
            return None
        number = int(text)
        return number if self._manifest.content_versions([number]) else None

    def find(self, text: str) -> int:
        """The image at a path or with an id.

        Raises:
            NotFoundError: there is none; the nearest path is offered.
        """
        number = self.by_path(text)
        if number is None:
            number = self.by_id(text)
        if number is not None:
            return number
        near = self._nearest(printable(text))
        hint = f"Did you mean '{near}'?" if near else f"Ids go up to {self._manifest.last_id():,}."
        raise NotFoundError(f"{self._name} has no readable image '{printable(text)}'. {hint} Nothing was changed.")

    def _readings(self, text: str) -> Iterator[str]:
        # Our own tables escape, so that reading comes first: they are to come back without loss.
        texts = (from_printable(from_spreadsheet_safe(text)), text, text.strip(), as_windows_text(text))
        for reading in dict.fromkeys(texts):
            yield reading
            yield reading.replace("\\", "/")
            yield os.path.normpath(reading).replace(os.sep, "/")
            if self._root is not None:
                with suppress(ValueError):  # on another drive
                    path = os.path.relpath(os.path.join(self._base, reading), self._root)
                    yield path.replace(os.sep, "/")

    def _nearest(self, wanted: str) -> str | None:
        paths = [printable(record.path) for record in islice(self._manifest.records("status = 'ok'"), _COMPARED)]
        name = os.path.basename(wanted)
        same_name = [path for path in paths if os.path.basename(path) == name]
        return next(iter(same_name or difflib.get_close_matches(wanted, paths, n=1)), None)


def find_images(dataset: ImageDataset, given: Sequence[str]) -> NDArray[np.int64]:
    """The ids of images that are given by path or id, in their order.

    Raises:
        NotFoundError: one is not there; the nearest path is offered.
    """
    with ImageLookup(dataset) as lookup:
        return np.array([lookup.find(text) for text in given], dtype=np.int64)


def paths_of(dataset: ImageDataset, ids: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
    """Id and path of images that have a path, also of those that are not in the source any more; by ascending id."""
    with Manifest(dataset.folder) as manifest:
        given = json.dumps(ids.tolist())
        for record in manifest.records("id IN (SELECT value FROM json_each(?))", (given,)):
            yield record.id, record.path


def records_of(dataset: ImageDataset, ids: NDArray[np.int64]) -> dict[int, ImageRecord]:
    """What the manifest says of some images, by id; images that are not there are left out."""
    with Manifest(dataset.folder) as manifest:
        found = manifest.records("id IN (SELECT value FROM json_each(?))", (json.dumps(ids.tolist()),))
        return {record.id: record for record in found}


def search_paths(dataset: ImageDataset, text: str) -> NDArray[np.int64]:
    """The readable images whose path holds a text, by ascending id; capital and small letters are the same."""
    wanted = from_printable(text).casefold()
    with Manifest(dataset.folder) as manifest:
        rows = manifest.connection.execute("SELECT id, path FROM images WHERE status = 'ok' ORDER BY id")
        found = [number for number, path in rows if wanted in path_from_bytes(path).casefold()]
    return np.array(found, dtype=np.int64)
