"""Main function of a worker process, which decodes images, writes their pixels and returns their metadata.

It imports few modules (NumPy only if an image needs it), because every dataset import waits for the workers to start.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import sys
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

from PIL import Image

from crlc.data.decode import decode_photo, read_metadata
from crlc.data.photo_metadata import PhotoMetadata
from crlc.data.pixel_statistics import PixelStatistics, measure_pixels
from crlc.data.pixel_writer import PixelWriter, read_stored_pixels
from crlc.data.placeholders import Placeholder
from crlc.data.sources import RawImage, Source, UnreadableError

HASH_BYTES = 16


class DecodeResult(NamedTuple):
    """Result of decoding one image: its size (0 for a placeholder) and hash, or the reason why it is unreadable."""

    id: int
    sizes: tuple[int, ...]
    hash: bytes | None
    width: int | None = None
    height: int | None = None
    reason: str | None = None
    metadata: PhotoMetadata = PhotoMetadata()
    statistics: PixelStatistics | None = None


class MetadataResult(NamedTuple):
    """Metadata and pixel statistics of one image that was decoded by an earlier version."""

    id: int
    metadata: PhotoMetadata
    statistics: PixelStatistics


DecodeItem = tuple[int, str, tuple[int, ...]]
"""Id and path of an image, and the sizes to decode it to."""


def hash_content(raw: RawImage) -> bytes:
    """Return a hash of the content of an image, independent of its path and source."""
    digest = hashlib.sha256()  # twice as fast as blake2b: current processors have instructions for it
    if isinstance(raw, bytes):
        digest.update(raw)
    else:
        digest.update(repr((raw.shape, raw.dtype.str)).encode())
        digest.update(raw.tobytes())
    return digest.digest()[:HASH_BYTES]


@dataclass(frozen=True)
class ImageDecoder:
    """Decoder of images into the pixel stores of a dataset."""

    source: Source
    folder: Path
    sizes: tuple[int, ...]

    @cached_property
    def _writers(self) -> dict[int, PixelWriter]:
        return {size: PixelWriter(self.folder, size) for size in self.sizes}

    def process_chunk(self, chunk: list[DecodeItem]) -> list[DecodeResult]:
        """Decode the images of a chunk, each to the sizes that are not stored yet."""
        return [self._decode(*item) for item in chunk]

    def _decode(self, image_id: int, path: str, sizes: tuple[int, ...]) -> DecodeResult:
        try:
            raw = self.source.read(path)
            # Decoded once per size: pixels must not depend on which other sizes exist.
            photos = [decode_photo(raw, size) for size in sizes]
        except UnreadableError as error:
            return DecodeResult(image_id, sizes, None, reason=str(error))
        for size, photo in zip(sizes, photos, strict=True):
            self._writers[size].write(image_id, photo.square.tobytes())
        if isinstance(raw, Placeholder):  # its size and pixels are not those of the missing image
            return DecodeResult(image_id, sizes, hash_content(raw), width=0, height=0)
        (width, height), square, metadata = photos[0]
        statistics = measure_pixels(square)
        return DecodeResult(image_id, sizes, hash_content(raw), width, height, metadata=metadata, statistics=statistics)

    def close(self) -> None:
        """Close the files. Only needed in the calling process: a worker exits instead."""
        for writer in self._writers.values():
            writer.close()


@dataclass(frozen=True)
class MetadataReader:
    """Reader of the metadata of images whose pixels are stored already: nothing is decoded again."""

    source: Source
    folder: Path
    size: int
    """Size of the stored pixels."""

    def process_chunk(self, chunk: list[tuple[int, str]]) -> list[MetadataResult]:
        """Read the metadata of the images of a chunk, given by id and path."""
        return [self._read(*item) for item in chunk]

    def _read(self, image_id: int, path: str) -> MetadataResult:
        pixels = read_stored_pixels(self.folder, self.size, image_id)
        statistics = measure_pixels(Image.frombytes("RGB", (self.size, self.size), pixels))
        try:
            return MetadataResult(image_id, read_metadata(self.source.read(path)), statistics)
        except UnreadableError:  # the original is missing now; its pixels are stored
            return MetadataResult(image_id, PhotoMetadata(), statistics)

    def close(self) -> None:
        """Do nothing: no file is open."""


@dataclass(frozen=True)
class ImageHasher:
    """Hasher of images, to recognise files that were renamed or changed."""

    source: Source

    def process_chunk(self, chunk: list[str]) -> list[tuple[str, bytes | None]]:
        """Hash the files of a chunk; an unreadable file has the hash `None`."""
        return [(path, self._hash(path)) for path in chunk]

    def _hash(self, path: str) -> bytes | None:
        try:
            return hash_content(self.source.read(path))
        except UnreadableError:
            return None

    def close(self) -> None:
        """Do nothing: no file is open."""


def main() -> None:
    """Process chunks from standard input until end of file.

    A message of type `bytes` is the pickled processor of the following chunks.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    # Results are sent through a private copy of standard output, so that a print cannot corrupt them.
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _send(results, "ready")
    processor: Any = None
    while True:
        try:
            message = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        if isinstance(message, bytes):
            processor = pickle.loads(message)
            continue
        try:
            result = processor.process_chunk(message)
        except Exception as error:
            result = error
        _send(results, result)


def _send(stream: IO[bytes], content: Any) -> None:
    pickle.dump(content, stream)
    stream.flush()
