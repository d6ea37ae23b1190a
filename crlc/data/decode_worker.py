"""What runs inside a worker process: decode images, write their pixels, answer with the facts.

It imports little (no NumPy unless an image needs it), because every import of a folder waits for it.
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

from crlc.data.decode import decode
from crlc.data.pixels import PixelWriter
from crlc.data.sources import RawImage, Source, UnreadableError

HASH_BYTES = 16


class Decoded(NamedTuple):
    """What came of decoding one image: its size and hash, or the reason why not."""

    id: int
    sizes: tuple[int, ...]
    hash: bytes | None
    width: int | None = None
    height: int | None = None
    reason: str | None = None


ToDecode = tuple[int, str, tuple[int, ...]]
"""Id and path of an image, and the sizes at which it is wanted."""


def content_hash(raw: RawImage) -> bytes:
    """A hash of what the source holds, the same for the same content wherever it lies."""
    digest = hashlib.sha256()  # computed by the processor itself on current ones: twice as fast as blake2b
    if isinstance(raw, bytes):
        digest.update(raw)
    else:
        digest.update(repr((raw.shape, raw.dtype.str)).encode())
        digest.update(raw.tobytes())
    return digest.digest()[:HASH_BYTES]


@dataclass(frozen=True)
class DecodeJob:
    """Decode images into the pixel stores of a data set."""

    source: Source
    folder: Path
    sizes: tuple[int, ...]

    @cached_property
    def _writers(self) -> dict[int, PixelWriter]:
        return {size: PixelWriter(self.folder, size) for size in self.sizes}

    def do(self, chunk: list[ToDecode]) -> list[Decoded]:
        """Decode the images of a chunk, each at the sizes that it lacks."""
        return [self._decode(*item) for item in chunk]

    def _decode(self, image_id: int, path: str, sizes: tuple[int, ...]) -> Decoded:
        try:
            raw = self.source.read(path)
            # One decoding per size: pixels must not depend on which other sizes there are.
            squares = [decode(raw, size) for size in sizes]
        except UnreadableError as error:
            return Decoded(image_id, sizes, None, reason=str(error))
        for size, (_, square) in zip(sizes, squares, strict=True):
            self._writers[size].write(image_id, square.tobytes())
        width, height = squares[0][0]
        return Decoded(image_id, sizes, content_hash(raw), width, height)

    def close(self) -> None:
        """Let go of the files, when used inside the caller's process."""
        for writer in self._writers.values():
            writer.close()


@dataclass(frozen=True)
class HashJob:
    """Only hash images, to find out which file is which."""

    source: Source

    def do(self, chunk: list[str]) -> list[tuple[str, bytes | None]]:
        """Hash the files of a chunk; an unreadable one has no hash."""
        return [(path, self._hash(path)) for path in chunk]

    def _hash(self, path: str) -> bytes | None:
        try:
            return content_hash(self.source.read(path))
        except UnreadableError:
            return None

    def close(self) -> None:
        """Nothing is held."""


def main() -> None:
    """Answer chunk after chunk until standard input ends; bytes are a pickled job for those to come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    # Answers go out by a private copy of standard output, so that a stray print cannot spoil them.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _answer(answers, "ready")
    job: Any = None
    while True:
        try:
            message = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        if isinstance(message, bytes):
            job = pickle.loads(message)
            continue
        try:
            answer = job.do(message)
        except Exception as error:
            answer = error
        _answer(answers, answer)


def _answer(stream: IO[bytes], content: Any) -> None:
    pickle.dump(content, stream)
    stream.flush()
