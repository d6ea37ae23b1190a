"""Metadata that a camera writes into a photograph (EXIF): date, camera, lens and position.

Every field is read on its own: a damaged one is missing, and never affects the others or the image. The block is parsed
here and not by Pillow, which reads every tag, also those that only the maker knows: that takes eight times as long.
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime
from typing import Any, NamedTuple

from PIL import Image

_EXIF_IFD, _GPS_IFD = 0x8769, 0x8825
_MAKE, _MODEL, _LENS_MODEL = 0x010F, 0x0110, 0xA434
_CHANGED, _TAKEN, _DIGITIZED = 0x0132, 0x9003, 0x9004
_LATITUDE, _LONGITUDE = 2, 4
_MAIN_TAGS = frozenset({_MAKE, _MODEL, _CHANGED, _EXIF_IFD, _GPS_IFD})
_DETAIL_TAGS = frozenset({_TAKEN, _DIGITIZED, _LENS_MODEL})
_GPS_TAGS = frozenset({_LATITUDE - 1, _LATITUDE, _LONGITUDE - 1, _LONGITUDE})
_TEXT_TYPE, _LONG_TYPE, _RATIONAL_TYPE, _POINTER_TYPE = 2, 4, 5, 13
_TYPE_BYTES = {_TEXT_TYPE: 1, _LONG_TYPE: 4, _RATIONAL_TYPE: 8, _POINTER_TYPE: 4}
_ENTRY_BYTES, _INLINE_BYTES = 12, 4
_MAX_ENTRIES = 1000
_PREFIX = b"Exif\0\0"
_DATE_CHARACTERS = len("2024:05:01 12:00:00")
_MAX_TEXT_CHARACTERS = 100
_FIRST_YEAR, _LAST_YEAR = 1826, 2200
"""Years that are possible: from the first photograph to a clock that is set wrongly by some decades."""

Tags = dict[int, Any]
"""Values by tag: text as `bytes` or `str`, a number, or a tuple of numbers."""


class PhotoMetadata(NamedTuple):
    """Metadata of one photograph; `None` for what is missing or damaged."""

    taken: float | None = None
    """Time on the clock of the camera, in seconds since 1970 as if that clock were UTC."""

    camera: str | None = None
    lens: str | None = None
    latitude: float | None = None
    """Degrees; south is negative."""

    longitude: float | None = None
    """Degrees; west is negative."""


_NOTHING = PhotoMetadata()


def read_photo_metadata(image: Image.Image) -> PhotoMetadata:
    """Return the metadata of an open image; a damaged EXIF block never raises an error."""
    block = image.info.get("exif")
    if isinstance(block, bytes):
        main, details, gps = _parse_block(block.removeprefix(_PREFIX))
    elif image.format == "TIFF":
        main, details, gps = _read_directories(image)
    else:
        return _NOTHING
    latitude, longitude = _parse_degrees(gps, _LATITUDE, 90), _parse_degrees(gps, _LONGITUDE, 180)
    if latitude is None or longitude is None or (latitude, longitude) == (0, 0):  # (0, 0): the receiver had no fix
        latitude = longitude = None
    dates = map(_parse_date, (details.get(_TAKEN), details.get(_DIGITIZED), main.get(_CHANGED)))
    taken = next((date for date in dates if date is not None), None)
    camera = _join_camera(_parse_text(main.get(_MAKE)), _parse_text(main.get(_MODEL)))
    return PhotoMetadata(taken, camera, _parse_text(details.get(_LENS_MODEL)), latitude, longitude)


# ---- the block


def _read_directories(image: Image.Image) -> tuple[Tags, Tags, Tags]:
    """Return the tags of a TIFF file, whose directories are anywhere in the file, with Pillow."""
    try:
        exif = image.getexif()
        return dict(exif), dict(exif.get_ifd(_EXIF_IFD)), dict(exif.get_ifd(_GPS_IFD))
    except Exception:
        return {}, {}, {}


def _parse_block(block: bytes) -> tuple[Tags, Tags, Tags]:
    """Return the wanted tags of the main directory, of the EXIF directory and of the GPS directory."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None:
        return {}, {}, {}
    main = _parse_directory(block, order, block[4:8], _MAIN_TAGS)
    details = _parse_directory(block, order, main.get(_EXIF_IFD), _DETAIL_TAGS)
    return main, details, _parse_directory(block, order, main.get(_GPS_IFD), _GPS_TAGS)


def _parse_directory(block: bytes, order: str, pointer: Any, wanted: frozenset[int]) -> Tags:
    """Return the wanted tags of a directory; those before a damaged part are kept."""
    tags: Tags = {}
    try:
        (start,) = struct.unpack(order + "I", pointer)
        (count,) = struct.unpack_from(order + "H", block, start)
        for number in range(min(count, _MAX_ENTRIES)):
            at = start + 2 + number * _ENTRY_BYTES
            tag, kind, length = struct.unpack_from(order + "HHI", block, at)
            if tag in wanted and kind in _TYPE_BYTES:
                size, at = _TYPE_BYTES[kind] * length, at + _ENTRY_BYTES - _INLINE_BYTES
                if size > _INLINE_BYTES:
                    (at,) = struct.unpack_from(order + "I", block, at)
                value = block[at : at + size]
                tags[tag] = _parse_rationals(value, order) if kind == _RATIONAL_TYPE else value
    except (struct.error, TypeError):
        pass
    return tags


def _parse_rationals(value: bytes, order: str) -> tuple[float, ...]:
    numbers = struct.iter_unpack(order + "II", value[: len(value) // 8 * 8])
    return tuple(above / below if below else math.nan for above, below in numbers)


# ---- values


def _parse_date(value: Any) -> float | None:
    text = _parse_text(value)
    if text is None:
        return None
    day, _, clock = text[:_DATE_CHARACTERS].partition(" ")
    try:  # not by strptime, whose first call takes as long as decoding a photograph
        year, month, day_of_month = (int(part) for part in day.replace("-", ":").split(":"))
        hour, minute, second = (int(part) for part in clock.split(":"))
        date = datetime(year, month, day_of_month, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return date.timestamp() if _FIRST_YEAR <= date.year <= _LAST_YEAR else None


def _parse_text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        return None
    text = "".join(character for character in value.partition("\0")[0] if character.isprintable())
    return " ".join(text.split())[:_MAX_TEXT_CHARACTERS] or None


def _join_camera(make: str | None, model: str | None) -> str | None:
    """Return make and model without repetition: most models begin with the first word of their make."""
    if make is None or model is None:
        return model or make
    return model if model.lower().startswith(make.split()[0].lower()) else f"{make} {model}"


def _parse_degrees(gps: Tags, tag: int, limit: int) -> float | None:
    try:
        degrees, minutes, seconds = (float(part) for part in gps[tag])
        value = degrees + minutes / 60 + seconds / 3600
        reference = _parse_text(gps.get(tag - 1)) or ""
    except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    if not math.isfinite(value) or not 0 <= value <= limit:
        return None
    return round(-value if reference[:1].upper() in ("S", "W") else value, 6)
