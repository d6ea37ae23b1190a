"""Images that are items of an array on disk: .npz files, and the built-in sets once downloaded."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from crlc.data.sources.base import Entry, RawImage, UnreadableError
from crlc.data.sources.folder import stamp_of, why_unreadable
from crlc.errors import SourceError

_IMAGE_KEYS = ("images", "x", "X", "data", "arr_0")
_CLASS_KEYS = ("labels", "classes", "y", "Y", "targets", "arr_1")
_CHANNELS = (1, 3, 4)
_ZIP_LOCAL_HEADER = 30
_COPY_BYTES = 1 << 22


@dataclass(frozen=True)
class ArrayPart:
    """A run of images that lie one behind the other in an uncompressed file."""

    file: str
    offset: int
    shape: tuple[int, ...]
    """(N, H, W), (N, H, W, channels) or, after `axes`, anything that becomes one of them."""

    dtype: str
    axes: tuple[int, ...] | None = None
    """Order of one item's axes that gives (H, W, channels), where the file has another."""

    split: str | None = None
    class_names: tuple[str | None, ...] | None = field(default=None, repr=False)
    """The class of each image, where known."""

    stamp: str = ""
    """The file's state when it was opened: read from another one, offsets would mean nothing."""

    def read(self, index: int) -> NDArray[Any]:
        """One item, by a plain read: a map of a file that somebody replaces would kill the process.

        Raises:
            UnreadableError: the file is gone, or is another one now.
        """
        kind = np.dtype(self.dtype)
        length = math.prod(self.shape[1:]) * kind.itemsize
        try:
            with open(self.file, "rb", buffering=0) as stream:
                if self.stamp != stamp_of(os.fstat(stream.fileno())):
                    raise UnreadableError("the file was changed since it was opened")
                stream.seek(self.offset + index * length)
                content = stream.read(length)
        except OSError as error:
            raise UnreadableError(why_unreadable(error)) from None
        if len(content) != length:
            raise UnreadableError("truncated: the file ends before the image does")
        item = np.frombuffer(content, kind).reshape(self.shape[1:])
        return item if self.axes is None else np.ascontiguousarray(item.transpose(self.axes))

    def __getstate__(self) -> dict[str, Any]:
        """Workers need no classes."""
        return {**self.__dict__, "class_names": None}


class ArraySource:
    """Parts of arrays, listed as `split/000017` (or `000017` where there are no splits)."""

    has_folders = False

    def __init__(self, kind: str, location: str, parts: list[ArrayPart], keep: object = None) -> None:
        """Take the parts.

        Args:
            kind: `npz` or `builtin`.
            location: what `open_source` was given.
            parts: where the images lie.
            keep: something that must live as long as the source, such as a temporary folder.
        """
        self.kind = kind
        self.location = location
        self._parts = {part.split or "": part for part in parts}
        self._stamp = stamp_of(os.stat(location)) if kind == "npz" else ""  # built-in sets do not change
        self._keep = keep

    def __getstate__(self) -> dict[str, Any]:
        """The owner of a temporary folder stays in the process that made it."""
        return {**self.__dict__, "_keep": None}

    def entries(self) -> Iterator[Entry]:
        """List all items of all parts."""
        for part in self._parts.values():
            size = math.prod(part.shape[1:]) * np.dtype(part.dtype).itemsize
            prefix = f"{part.split}/" if part.split else ""
            for index in range(part.shape[0]):
                class_name = part.class_names[index] if part.class_names else None
                yield Entry(f"{prefix}{index:06d}", size, self._stamp, part.split, class_name)

    def read(self, path: str) -> RawImage:
        """One item as 8-bit pixels, (H, W) or (H, W, channels)."""
        split, _, number = path.rpartition("/")
        part = self._parts.get(split)
        if part is None or not number.isdigit() or int(number) >= part.shape[0]:
            raise UnreadableError("the image is not in the file any more")
        return _unsigned_pixels(part.read(int(number)))


def open_npz(location: str) -> ArraySource:
    """Open a NumPy archive of images and perhaps classes, without loading it.

    Raises:
        SourceError: not a NumPy archive, or no array in it can be taken for images.
    """
    try:
        with zipfile.ZipFile(location) as archive:
            arrays = {Path(name).stem: name for name in archive.namelist() if name.endswith(".npy")}
            key = next((key for key in _IMAGE_KEYS if key in arrays), None)
            if key is None:
                raise SourceError(
                    f"{location} holds no array of images. It holds: {', '.join(arrays) or 'nothing'}. "
                    f"Name the array one of {', '.join(_IMAGE_KEYS)}."
                )
            shape, dtype, header_bytes = _npy_header(archive, arrays[key], location)
            axes = _axes_to_channels_last(shape, key, location)
            class_names = _read_classes(archive, arrays, shape[0], location)
            file, offset, keep = _uncompressed(archive, arrays[key], header_bytes, location)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise SourceError(f"{location} cannot be read as a NumPy archive: {error}. Is the file complete?") from None
    part = ArrayPart(file, offset, shape, dtype.str, axes, None, class_names, stamp_of(os.stat(file)))
    if dtype.kind == "f":
        _check_fractions(part, key, location)
    return ArraySource("npz", location, [part], keep)


def _npy_header(archive: zipfile.ZipFile, name: str, location: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    try:
        with archive.open(name) as stream:
            version = npy_format.read_magic(stream)
            reader = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
            shape, fortran, dtype = reader(stream)
            header_bytes = stream.tell()
    except ValueError as error:
        raise SourceError(f"{location}: {name} is not a NumPy array: {error}.") from None
    if dtype.kind not in "bf" and dtype not in (np.uint8, np.uint16):
        raise SourceError(
            f"{location}: {name} has type {dtype}. Images must be uint8, uint16, bool, or floats from 0 to 1."
        )
    if fortran:
        raise SourceError(f"{location}: {name} is in Fortran order. Save it with np.ascontiguousarray.")
    return shape, dtype, header_bytes


def _axes_to_channels_last(shape: tuple[int, ...], key: str, location: str) -> tuple[int, ...] | None:
    three, four = len(shape) == 3, len(shape) == 4  # noqa: PLR2004
    if 0 in shape:
        raise SourceError(f"{location}: {key!r} is empty (shape {shape}).")
    if three or (four and shape[3] in _CHANNELS):
        return None
    if four and shape[1] in _CHANNELS:
        return (1, 2, 0)
    raise SourceError(
        f"{location}: {key!r} has shape {shape}. Images must be (N, H, W), (N, H, W, channels) or (N, channels, H, W) "
        "with 1, 3 or 4 channels."
    )


def _read_classes(
    archive: zipfile.ZipFile, arrays: dict[str, str], count: int, location: str
) -> tuple[str, ...] | None:
    key = next((key for key in _CLASS_KEYS if key in arrays), None)
    if key is None:
        return None
    with archive.open(arrays[key]) as stream:
        try:
            values = np.lib.format.read_array(stream, allow_pickle=False)
        except ValueError as error:
            raise SourceError(f"{location}: {key!r} cannot be read: {error}.") from None
    if values.shape != (count,):
        raise SourceError(
            f"{location}: {key!r} has shape {values.shape}, but there are {count} images: ({count},) is needed."
        )
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    return tuple(str(value) for value in values.tolist())


def _uncompressed(archive: zipfile.ZipFile, name: str, header_bytes: int, location: str) -> tuple[str, int, object]:
    """Where the raw pixels can be memory-mapped: in the archive itself, or unpacked beside it."""
    member = archive.getinfo(name)
    if member.compress_type == zipfile.ZIP_STORED:
        with open(location, "rb") as stream:
            stream.seek(member.header_offset)
            local = stream.read(_ZIP_LOCAL_HEADER)
        name_and_extra = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        return location, member.header_offset + _ZIP_LOCAL_HEADER + name_and_extra + header_bytes, None
    folder = tempfile.TemporaryDirectory(prefix="crlc-npz-")
    free = shutil.disk_usage(folder.name).free
    if member.file_size > free:
        raise SourceError(
            f"{location} unpacks to {member.file_size / 1e9:.1f} GB, but {folder.name} has {free / 1e9:.1f} GB free. "
            "Free some space, or set TMPDIR to another disk."
        )
    unpacked = Path(folder.name, "images.npy")
    with archive.open(member) as packed, unpacked.open("wb") as stream:
        shutil.copyfileobj(packed, stream, _COPY_BYTES)
    return str(unpacked), header_bytes, folder


def _check_fractions(part: ArrayPart, key: str, location: str) -> None:
    """Floats mean fractions of full brightness; anything else is a guess we do not make."""
    lowest, highest = math.inf, -math.inf
    items = np.memmap(part.file, dtype=np.dtype(part.dtype), mode="r", offset=part.offset, shape=part.shape)
    step = max(1, _COPY_BYTES // max(1, math.prod(part.shape[1:])))
    for start in range(0, part.shape[0], step):
        block = items[start : start + step]
        lowest = min(lowest, float(np.nanmin(block)))
        highest = max(highest, float(np.nanmax(block)))
    if lowest < 0 or highest > 1:
        raise SourceError(
            f"{location}: {key!r} holds floats from {lowest:g} to {highest:g}. Scale them to 0..1, or save uint8."
        )


def _unsigned_pixels(image: NDArray[Any]) -> NDArray[np.uint8]:
    """One array item as 8-bit pixels: 16-bit values and fractions of 1 are scaled, not cut."""
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.bool_:
        return image.astype(np.uint8) * np.uint8(255)
    if image.dtype == np.uint16:
        return ((image.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if not np.isfinite(image).all():
        raise UnreadableError("holds values that are not numbers (NaN or infinity)")
    return np.rint(image.astype(np.float64) * 255).clip(0, 255).astype(np.uint8)
