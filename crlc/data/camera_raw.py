"""RAW photographs that begin as TIFF (DNG, NEF, CR2, ARW), of which the largest embedded JPEG is read.

Pillow opens such a file as an ordinary TIFF and decodes its first directory, which is a thumbnail of 160 x 120 pixels.
RAW pixels themselves are not decoded.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

from PIL import Image

_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_CR2_MARK = b"CR\x02"
_JPEG_START = b"\xff\xd8\xff"

_SUBFILE_TYPE, _COMPRESSION, _PHOTOMETRIC, _MAKE = 254, 259, 262, 271
_STRIP_OFFSETS, _STRIP_BYTES, _SUB_DIRECTORIES = 273, 279, 330
_JPEG_OFFSET, _JPEG_BYTES, _DNG_VERSION = 513, 514, 50706
_REDUCED_IMAGE = 1
_JPEG_COMPRESSIONS = (6, 7)
_SENSOR_PHOTOMETRICS = (32803, 34892)
"""Colour filter array and linear RAW: pixels of the sensor, which may be compressed as lossless JPEG."""

_INTEGER_FORMATS = {1: "B", 3: "H", 4: "I", 13: "I"}
_ENTRY_BYTES, _INLINE_BYTES = 12, 4
_MAX_DIRECTORIES, _MAX_ENTRIES, _MAX_VALUES = 16, 512, 64
_MIN_PREVIEW_SIDE = 240
"""A smaller embedded JPEG is a thumbnail: cameras write 120 to 212 pixels."""

_Directory = dict[int, tuple[int, ...]]
"""Whole numbers by tag; texts and fractions have no values."""


def is_camera_raw(content: bytes) -> bool:
    """Return whether a file is a RAW photograph that begins as TIFF."""
    order = _BYTE_ORDERS.get(content[:4])
    if order is None:
        return False
    first, _ = _read_directory(content, order, _read_offset(content, order))
    is_thumbnail = first.get(_SUBFILE_TYPE, (0,))[:1] == (_REDUCED_IMAGE,)
    return (
        content[8:11] == _CR2_MARK
        or _DNG_VERSION in first
        or first.get(_PHOTOMETRIC, (0,))[:1] == (_SENSOR_PHOTOMETRICS[0],)
        or (is_thumbnail and _SUB_DIRECTORIES in first and _MAKE in first)
    )


def open_raw_preview(content: bytes) -> Image.Image | None:
    """Open the largest JPEG that is embedded in a RAW photograph; `None` if there are only thumbnails.

    It gets the metadata of the RAW photograph: date, camera and orientation are often not in the JPEG.
    """
    previews = [preview for preview in map(_open_jpeg, _iterate_jpegs(content)) if preview is not None]
    largest = max(previews, key=lambda preview: preview.width * preview.height, default=None)
    if largest is None or min(largest.size) < _MIN_PREVIEW_SIDE:
        return None
    largest.info["exif"] = content
    largest.getexif().load(content)
    return largest


def _open_jpeg(content: bytes) -> Image.Image | None:
    """Open a JPEG without decoding it; `None` if Pillow cannot, as lossless JPEG of 12 or 14 bits."""
    try:
        return Image.open(io.BytesIO(content), formats=("JPEG",))
    except (OSError, SyntaxError, ValueError):
        return None


def _iterate_jpegs(content: bytes) -> Iterator[bytes]:
    """Yield the complete JPEG streams to which the directories of a RAW photograph refer."""
    for directory in _iterate_directories(content):
        for start, length in _list_jpeg_places(directory):
            if content[start : start + len(_JPEG_START)] == _JPEG_START:
                yield content[start : start + length]


def _list_jpeg_places(directory: _Directory) -> list[tuple[int, int]]:
    """Return start and length of what may be a JPEG stream: one by itself, or the only strip of the image."""
    if directory.get(_PHOTOMETRIC, (0,))[0] in _SENSOR_PHOTOMETRICS:
        return []
    pairs = [(directory.get(_JPEG_OFFSET, ()), directory.get(_JPEG_BYTES, ()))]
    if directory.get(_COMPRESSION, (0,))[0] in _JPEG_COMPRESSIONS:
        pairs.append((directory.get(_STRIP_OFFSETS, ()), directory.get(_STRIP_BYTES, ())))
    return [(start[0], length[0]) for start, length in pairs if len(start) == len(length) == 1]


def _iterate_directories(content: bytes) -> Iterator[_Directory]:
    """Yield the directories of a TIFF file, each followed by those inside it."""
    order = _BYTE_ORDERS[content[:4]]
    waiting, seen = [_read_offset(content, order)], set[int]()
    while waiting and len(seen) < _MAX_DIRECTORIES:
        start = waiting.pop()
        if start and start not in seen:
            seen.add(start)
            directory, following = _read_directory(content, order, start)
            yield directory
            waiting += [following, *reversed(directory.get(_SUB_DIRECTORIES, ()))]


def _read_offset(content: bytes, order: str) -> int:
    return int.from_bytes(content[4:8], "little" if order == "<" else "big")


def _read_directory(content: bytes, order: str, start: int) -> tuple[_Directory, int]:
    """Return a directory and the start of the next one, 0 if there is none; entries before a damaged part are kept."""
    found: _Directory = {}
    try:
        (count,) = struct.unpack_from(f"{order}H", content, start)
        for number in range(min(count, _MAX_ENTRIES)):
            at = start + 2 + number * _ENTRY_BYTES
            tag, kind, length = struct.unpack_from(f"{order}HHI", content, at)
            code = _INTEGER_FORMATS.get(kind, "")
            found[tag] = _read_values(content, order, code, min(length, _MAX_VALUES), at + _ENTRY_BYTES - _INLINE_BYTES)
        (following,) = struct.unpack_from(f"{order}I", content, start + 2 + count * _ENTRY_BYTES)
    except struct.error:
        return found, 0
    return found, following


def _read_values(content: bytes, order: str, code: str, length: int, at: int) -> tuple[int, ...]:
    if not code or not length:
        return ()
    layout = f"{order}{length}{code}"
    if struct.calcsize(layout) > _INLINE_BYTES:
        (at,) = struct.unpack_from(f"{order}I", content, at)
    return struct.unpack_from(layout, content, at)
