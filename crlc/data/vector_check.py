"""Checks of a file of vectors before an import decodes images: values, number and paths.

An unreadable file needs no vector, but which files are unreadable is known only after decoding. Files whose header can
be read and whose end is there count as readable here; `import_vectors` checks the rest.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from crlc.data.decode import read_image_size
from crlc.data.image_lookup import get_folder_of_originals, list_path_readings
from crlc.data.manifest import Manifest
from crlc.data.sources import RawImage, Source, UnreadableError
from crlc.data.vector_files import VectorFile
from crlc.errors import SourceError
from crlc.formatting import format_count, format_list
from crlc.paths import decode_path, to_printable
from crlc.progress import ProgressCallback, ProgressStage, no_progress

_SHOWN_PATHS = 3
_ENDINGS = ((b"\xff\xd8", b"\xff\xd9"), (b"\x89PNG", b"IEND"))
"""Start of a format, and what stands near the end of a complete file."""

_ENDING_BYTES = 4096


def check_vector_values(file: VectorFile, report: ProgressCallback = no_progress) -> None:
    """Check that all values of a file of vectors are finite, block by block.

    Raises:
        SourceError: a value is not finite, or vectors have different lengths.
    """
    stage = ProgressStage("Checking vectors", file.count, report)
    for chunk in file.iterate_chunks():
        stage.advance(len(chunk))
    stage.finish()


@dataclass(frozen=True)
class VectorListingCheck:
    """Check of vectors against the listing of an import, before anything is changed."""

    file: VectorFile

    def __call__(self, manifest: Manifest, source: Source) -> None:
        """Check the number of vectors, or their paths.

        Args:
            manifest: manifest with the listing of this import.
            source: the source of the images.

        Raises:
            SourceError: images have no vector, or there are too many vectors.
        """
        query = "SELECT path, problem IS NULL FROM scan ORDER BY path"
        listed = {
            decode_path(path): bool(may_be_readable) for path, may_be_readable in manifest.connection.execute(query)
        }
        if self.file.paths is None:
            self._check_count(listed, source)
        else:
            self._check_paths(self.file.paths, listed, source)

    def _check_count(self, listed: dict[str, bool], source: Source) -> None:
        count = self.file.count
        if count == len(listed):
            return
        readable = (path for path in listed if listed[path])
        if count > len(listed) or _has_more_readable_images(source, readable, count):
            raise SourceError(
                f"{self.file.location} has {count:,} vectors, but {source.location} has {len(listed):,} images. "
                "Nothing was imported.",
                advice="Give one vector per image in the order of the images, or a file with paths (.npz, .parquet).",
            )

    def _check_paths(self, paths: Sequence[str], listed: dict[str, bool], source: Source) -> None:
        root, base = get_folder_of_originals(source.kind, source.location), os.path.abspath(".")
        found = Counter[str]()
        for text in paths:
            path = next((path for path in list_path_readings(text, base, root) if path in listed), None)
            if path is not None:
                found[path] += 1
        if not found:
            raise SourceError(
                f"None of the {len(paths):,} paths in {self.file.location} is in {source.location}; the first is "
                f"{to_printable(paths[0])}. Nothing was imported.",
                advice="Write paths as the dataset has them, relative to its folder, or absolute.",
            )
        twice = next((path for path, count in found.items() if count > 1), None)
        if twice is not None:
            raise SourceError(
                f"{self.file.location} has more than one vector for {to_printable(twice)}. Nothing was imported.",
                advice="Keep one of them.",
            )
        missing = [path for path, may_be_readable in listed.items() if may_be_readable and path not in found]
        if _has_more_readable_images(source, iter(missing), 0):
            raise SourceError(
                f"{self.file.location} has no vector for {format_count(len(missing), 'file')} of {source.location}: "
                f"{format_list([to_printable(path) for path in missing], _SHOWN_PATHS)}. Nothing was imported.",
                advice="Add their vectors, or import a list (.csv) of the images that have one.",
            )


def _has_more_readable_images(source: Source, paths: Iterator[str], count: int) -> bool:
    """Return whether more than `count` files are probably readable; stops reading files as soon as this is known."""
    for path in paths:
        with suppress(UnreadableError):
            count -= _is_probably_readable(source.read(path))
        if count < 0:
            return True
    return False


def _is_probably_readable(raw: RawImage) -> bool:
    """Return whether the header of a file can be read, and its end is there."""
    read_image_size(raw)
    if not isinstance(raw, bytes):
        return True
    ending = next((ending for start, ending in _ENDINGS if raw.startswith(start)), b"")
    return ending in raw[-_ENDING_BYTES:]
