"""Lookup of images from user input: a path inside the source, a path on this computer, or an id."""

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
from crlc.data.sources.table import decode_windows_text
from crlc.errors import NotFoundError
from crlc.paths import from_printable, to_printable, unescape_formula

_MAX_COMPARED_PATHS = 20_000


def get_original_folder(dataset: ImageDataset) -> str | None:
    """Return the folder that the paths of images are relative to; `None` if the originals are not files."""
    return get_folder_of_originals(dataset.info.source_kind, dataset.info.location)


def get_folder_of_originals(kind: str, location: str) -> str | None:
    """Return the folder that paths in a source are relative to; `None` if the originals are not files."""
    return {"folder": location, "csv": os.path.dirname(location)}.get(kind)


def list_path_readings(text: str, base: str, root: str | None) -> Iterator[str]:
    """Yield the possible paths inside a source for a path that a user wrote, relative or absolute, escaped or not.

    Args:
        text: the path.
        base: absolute path of the folder that it may be relative to.
        root: folder of the originals; `None` if they are not files.
    """
    # The escaped form comes first: exported tables use it, and it is lossless.
    texts = (from_printable(unescape_formula(text)), text, text.strip(), decode_windows_text(text))
    for reading in dict.fromkeys(texts):
        yield reading
        yield reading.replace("\\", "/")
        yield os.path.normpath(reading).replace(os.sep, "/")
        if root is not None:
            with suppress(ValueError):  # on another drive
                yield os.path.relpath(os.path.join(base, reading), root).replace(os.sep, "/")


class ImageLookup:
    """Lookup of the readable images of a dataset; use it as a context manager."""

    def __init__(self, dataset: ImageDataset, base: Path | None = None) -> None:
        """Open the manifest.

        Args:
            dataset: the dataset of the images.
            base: folder that paths may be relative to, besides the source; by default the current folder.
        """
        self._name = dataset.name
        self._manifest = Manifest(dataset.folder)
        self._base = os.path.abspath(base or ".")
        self._root = get_original_folder(dataset)

    def __enter__(self) -> ImageLookup:
        """Use as a context that closes the manifest."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the manifest."""
        self._manifest.__exit__(kind, error, trace)

    def find_by_path(self, text: str) -> int | None:
        """Return the image at a path, relative or absolute, escaped or not; `None` if there is none."""
        found = (self._manifest.find_id(path) for path in list_path_readings(text, self._base, self._root))
        return next((number for number in found if number is not None), None)

    def find_by_id(self, text: str) -> int | None:
        """Return the image with an id, or `None` if there is none."""
        if not (text.isascii() and text.isdigit()):
            return None
        number = int(text)
        return number if self._manifest.read_content_versions([number]) else None

    def find(self, text: str) -> int:
        """Return the image at a path or with an id.

        Raises:
            NotFoundError: there is none; the advice names the most similar path.
        """
        number = self.find_by_path(text)
        if number is None:
            number = self.find_by_id(text)
        if number is not None:
            return number
        similar = self._find_similar_path(to_printable(text))
        hint = f"Did you mean '{similar}'?" if similar else f"Ids go up to {self._manifest.get_last_id():,}."
        raise NotFoundError(f"{self._name} has no readable image '{to_printable(text)}'.", advice=hint)

    def _find_similar_path(self, wanted: str) -> str | None:
        paths = [
            to_printable(record.path)
            for record in islice(self._manifest.read_records("status = 'ok'"), _MAX_COMPARED_PATHS)
        ]
        name = os.path.basename(wanted)
        same_name = [path for path in paths if os.path.basename(path) == name]
        return next(iter(same_name or difflib.get_close_matches(wanted, paths, n=1)), None)


def find_image_ids(dataset: ImageDataset, given: Sequence[str]) -> NDArray[np.int64]:
    """Return the ids of images to edit, given by path or id, in the given order.

    Raises:
        NotFoundError: one of them does not exist; the advice names the most similar path.
    """
    try:
        with ImageLookup(dataset) as lookup:
            return np.array([lookup.find(text) for text in given], dtype=np.int64)
    except NotFoundError as error:
        raise NotFoundError(f"{error.message} Nothing was changed.", advice=error.advice) from None


def read_paths(dataset: ImageDataset, ids: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
    """Yield id and path of images, by ascending id, including images that were removed from the source."""
    with Manifest(dataset.folder) as manifest:
        given = json.dumps(ids.tolist())
        for record in manifest.read_records("id IN (SELECT value FROM json_each(?))", (given,)):
            yield record.id, record.path


def read_records(dataset: ImageDataset, ids: NDArray[np.int64]) -> dict[int, ImageRecord]:
    """Return the rows of the manifest by id; images that do not exist are left out."""
    with Manifest(dataset.folder) as manifest:
        found = manifest.read_records("id IN (SELECT value FROM json_each(?))", (json.dumps(ids.tolist()),))
        return {record.id: record for record in found}


def search_paths(dataset: ImageDataset, text: str) -> NDArray[np.int64]:
    """Return the ids of the readable images whose path contains a text, ascending; case is ignored."""
    wanted = from_printable(text).casefold()
    found = [number for number, path in iterate_readable_paths(dataset) if wanted in path.casefold()]
    return np.array(found, dtype=np.int64)


def iterate_readable_paths(dataset: ImageDataset) -> Iterator[tuple[int, str]]:
    """Yield id and path of all readable images, by ascending id."""
    with Manifest(dataset.folder) as manifest:
        yield from manifest.read_paths()
