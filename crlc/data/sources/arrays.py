"""Sources for images in arrays on disk: .npz files and built-in datasets."""

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
import psutil
from numpy.typing import NDArray

from crlc.array_files import ArrayHeader, list_texts, load_array_from_stream, read_array_header
from crlc.data.sources.base import RawImage, SourceEntry, UnreadableError
from crlc.data.sources.folder import describe_os_error, make_stamp
from crlc.errors import DiskFullError, OutOfMemoryError, SourceError, explain_system_error
from crlc.formatting import format_bytes

_IMAGE_KEYS = ("images", "x", "X", "data", "arr_0")
_CLASS_KEYS = ("labels", "classes", "y", "Y", "targets", "arr_1")
_CHANNELS = (1, 3, 4)
_ZIP_LOCAL_HEADER = 30
_UNPACK_ADVICE = "Free some space, or set TMPDIR to another disk."
_COPY_BYTES = 1 << 22


@dataclass(frozen=True)
class ArrayPart:
    """A contiguous array of images in an uncompressed file."""

    file: str
    offset: int
    shape: tuple[int, ...]
    """(N, H, W) or (N, H, W, channels), or a shape that `axes` converts to one of them."""

    dtype: str
    axes: tuple[int, ...] | None = None
    """Axes that transpose one item to (H, W, channels); `None` if it has this order already."""

    split: str | None = None
    class_names: tuple[str | None, ...] | None = field(default=None, repr=False)
    """Class of each image, or `None` where unknown."""

    stamp: str = ""
    """Stamp of the file when it was opened. If the file is replaced, the offset may be wrong."""

    def read(self, index: int) -> NDArray[Any]:
        """Read one item, without a memory map: that would kill the process if the file is truncated.

        Raises:
            UnreadableError: the file is missing, truncated, or was replaced.
        """
        kind = np.dtype(self.dtype)
        length = math.prod(self.shape[1:]) * kind.itemsize
        try:
            with open(self.file, "rb", buffering=0) as stream:
                if self.stamp != make_stamp(os.fstat(stream.fileno())):
                    raise UnreadableError("the file was changed since it was opened")
                stream.seek(self.offset + index * length)
                content = stream.read(length)
        except OSError as error:
            raise UnreadableError(describe_os_error(error)) from None
        except MemoryError:
            raise UnreadableError("not enough memory for an image of this size") from None
        if len(content) != length:
            raise UnreadableError("truncated: the file ends before the image does")
        item = np.frombuffer(content, kind).reshape(self.shape[1:])
        return item if self.axes is None else np.ascontiguousarray(item.transpose(self.axes))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without classes, which workers do not need."""
        return {**self.__dict__, "class_names": None}


class ArraySource:
    """Source for the images of arrays, listed as `split/000017`, or `000017` without splits."""

    has_folders = False

    def __init__(self, kind: str, location: str, parts: list[ArrayPart], keep: object = None) -> None:
        """Store the parts.

        Args:
            kind: `npz` or `builtin`.
            location: path, or name of the built-in dataset.
            parts: the arrays of images.
            keep: an object that must live as long as the source, such as a temporary folder.
        """
        self.kind = kind
        self.location = location
        self._parts = {part.split or "": part for part in parts}
        self._stamp = make_stamp(os.stat(location)) if kind == "npz" else ""  # built-in datasets do not change
        self._keep = keep

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the temporary folder, which the process that created it owns."""
        return {**self.__dict__, "_keep": None}

    def list_entries(self) -> Iterator[SourceEntry]:
        """Yield all items of all parts."""
        for part in self._parts.values():
            size = math.prod(part.shape[1:]) * np.dtype(part.dtype).itemsize
            prefix = f"{part.split}/" if part.split else ""
            for index in range(part.shape[0]):
                class_name = part.class_names[index] if part.class_names else None
                yield SourceEntry(f"{prefix}{index:06d}", size, self._stamp, part.split, class_name)

    def read(self, path: str) -> RawImage:
        """Return one item as 8-bit pixels, (H, W) or (H, W, channels)."""
        split, _, number = path.rpartition("/")
        part = self._parts.get(split)
        if part is None or not number.isdigit() or int(number) >= part.shape[0]:
            raise UnreadableError("the image is no longer in the file")
        return _to_uint8(part.read(int(number)))


def open_npz(location: str) -> ArraySource:
    """Open a NumPy archive of images and optional classes, without loading it.

    Raises:
        SourceError: the file is not a NumPy archive, or none of its arrays contains images.
    """
    try:
        with zipfile.ZipFile(location) as archive:
            arrays = {Path(name).stem: name for name in archive.namelist() if name.endswith(".npy")}
            key = next((key for key in _IMAGE_KEYS if key in arrays), None)
            if key is None:
                raise SourceError(
                    f"{location} has no array of images. Its arrays are: {', '.join(arrays) or 'none'}.",
                    advice=f"Name the array one of {', '.join(_IMAGE_KEYS)}.",
                )
            shape, dtype, header_bytes = _read_image_header(archive, arrays[key], location)
            axes = _find_channels_last_axes(shape, key, location)
            class_names = _read_classes(archive, arrays, shape[0], location)
            file, offset, keep = _locate_uncompressed(archive, arrays[key], header_bytes, location)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        explained = explain_system_error(error, Path(tempfile.gettempdir()))
        if isinstance(explained, DiskFullError):  # while it was unpacked
            raise SourceError(
                f"{location} cannot be unpacked: the disk that holds {tempfile.gettempdir()} is full.",
                advice=_UNPACK_ADVICE,
            ) from None
        if isinstance(explained, OutOfMemoryError):
            raise explained from None
        raise SourceError(
            f"{location} cannot be read as a NumPy archive: {error}.", advice="Check that the file is complete."
        ) from None
    part = ArrayPart(file, offset, shape, dtype.str, axes, None, class_names, make_stamp(os.stat(file)))
    if dtype.kind == "f":
        _check_fractions(part, key, location)
    return ArraySource("npz", location, [part], keep)


def _read_image_header(
    archive: zipfile.ZipFile, name: str, location: str
) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return shape and type of the array of images, and the length of its header in bytes."""
    shape, fortran, dtype, header_bytes = _read_npy_header(archive, name, location)
    if dtype.kind not in "bf" and dtype not in (np.uint8, np.uint16):
        raise SourceError(
            f"{location}: {name} has type {dtype}; it must be uint8, uint16, bool, or floats from 0 to 1."
        )
    if fortran:
        raise SourceError(f"{location}: {name} is in Fortran order.", advice="Save it with np.ascontiguousarray.")
    image_bytes, memory_bytes = math.prod(shape[1:]) * dtype.itemsize, psutil.virtual_memory().total
    if image_bytes > memory_bytes:
        raise SourceError(
            f"{location}: each image of {name} has {format_bytes(image_bytes)} (shape {shape}), but this computer has "
            f"{format_bytes(memory_bytes)} of memory.",
            advice="Save smaller images.",
        )
    return shape, dtype, header_bytes


def _read_npy_header(archive: zipfile.ZipFile, name: str, location: str) -> ArrayHeader:
    """Return the header of an array, after comparing it with the size of the array.

    A header may promise any number of images: 10^12 entries must be refused before they are listed or allocated.
    """
    try:
        with archive.open(name) as stream:
            header = read_array_header(stream)
    except ValueError as error:
        raise SourceError(f"{location}: {name} is not a NumPy array: {error}.") from None
    needed = header.header_bytes + header.value_bytes
    member = archive.getinfo(name)
    # The directory of the archive may be wrong, too: a part that is not compressed cannot be longer than the file.
    stored = os.path.getsize(location) if member.compress_type == zipfile.ZIP_STORED else member.file_size
    found = min(stored, member.file_size)
    if needed > found:
        raise SourceError(
            f"{location}: {name} has the shape {header.shape} according to its header, which needs "
            f"{format_bytes(needed)}, but it has only {format_bytes(found)}.",
            advice="Check that the file is complete.",
        )
    return header


def _find_channels_last_axes(shape: tuple[int, ...], key: str, location: str) -> tuple[int, ...] | None:
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
    shape, *_ = _read_npy_header(archive, arrays[key], location)
    if shape != (count,):
        raise SourceError(f"{location}: {key!r} has shape {shape}, but there are {count} images: ({count},) is needed.")
    with archive.open(arrays[key]) as stream:
        try:
            return tuple(list_texts(load_array_from_stream(stream)))
        except ValueError as error:
            raise SourceError(
                f"{location}: {key!r} cannot be read: {error}.", advice="Save the classes as numbers or texts."
            ) from None


def _locate_uncompressed(
    archive: zipfile.ZipFile, name: str, header_bytes: int, location: str
) -> tuple[str, int, object]:
    """Return file and offset of the raw pixels, in the archive or unpacked to a temporary folder, and that folder."""
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
            f"{location} unpacks to {format_bytes(member.file_size)}, but {folder.name} has {format_bytes(free)} free.",
            advice=_UNPACK_ADVICE,
        )
    unpacked = Path(folder.name, "images.npy")
    with archive.open(member) as packed, unpacked.open("wb") as stream:
        shutil.copyfileobj(packed, stream, _COPY_BYTES)
    return str(unpacked), header_bytes, folder


def _check_fractions(part: ArrayPart, key: str, location: str) -> None:
    """Check that floats are from 0 to 1: the scale of other values is unknown."""
    lowest, highest = math.inf, -math.inf
    items = np.memmap(part.file, dtype=np.dtype(part.dtype), mode="r", offset=part.offset, shape=part.shape)
    step = max(1, _COPY_BYTES // max(1, math.prod(part.shape[1:])))
    for start in range(0, part.shape[0], step):
        block = items[start : start + step]
        lowest = min(lowest, float(np.nanmin(block)))
        highest = max(highest, float(np.nanmax(block)))
    if lowest < 0 or highest > 1:
        raise SourceError(
            f"{location}: {key!r} has floats from {lowest:g} to {highest:g}; they must be from 0 to 1.",
            advice="Scale them, or save them as uint8.",
        )


def _to_uint8(image: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert an item to 8-bit pixels; 16-bit values and floats are scaled, not clipped."""
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.bool_:
        return image.astype(np.uint8) * np.uint8(255)
    if image.dtype == np.uint16:
        return ((image.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if not np.isfinite(image).all():
        raise UnreadableError("contains values that are not finite (NaN or infinity)")
    return np.rint(image.astype(np.float64) * 255).clip(0, 255).astype(np.uint8)
