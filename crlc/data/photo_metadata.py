"""Metadata that a camera writes into a photograph (EXIF): date, camera, lens and position.

Every field is read on its own: a damaged one is missing, and never affects the others or the image.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from PIL import Image

_EXIF_IFD, _GPS_IFD = 0x8769, 0x8825
_MAKE, _MODEL, _LENS_MODEL = 0x010F, 0x0110, 0xA434
_CHANGED, _TAKEN, _DIGITIZED = 0x0132, 0x9003, 0x9004
_LATITUDE, _LONGITUDE = 2, 4
_DATE_CHARACTERS = len("2024:05:01 12:00:00")
_MAX_TEXT_CHARACTERS = 100
_FIRST_YEAR, _LAST_YEAR = 1826, 2200
"""Years that are possible: from the first photograph to a clock that is set wrongly by some decades."""


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


def read_photo_metadata(exif: Image.Exif) -> PhotoMetadata:
    """Return the metadata of an open image; a damaged EXIF block never raises an error."""
    try:
        if not len(exif):
            return _NOTHING
        main = dict(exif)
    except Exception:
        return _NOTHING
    details, gps = _read_directory(exif, _EXIF_IFD), _read_directory(exif, _GPS_IFD)
    latitude, longitude = _parse_degrees(gps, _LATITUDE, 90), _parse_degrees(gps, _LONGITUDE, 180)
    if latitude is None or longitude is None or (latitude, longitude) == (0, 0):  # (0, 0): the receiver had no fix
        latitude = longitude = None
    taken = next(
        (
            date
            for value in (details.get(_TAKEN), details.get(_DIGITIZED), main.get(_CHANGED))
            if (date := _parse_date(value)) is not None
        ),
        None,
    )
    camera = _join_camera(_parse_text(main.get(_MAKE)), _parse_text(main.get(_MODEL)))
    return PhotoMetadata(taken, camera, _parse_text(details.get(_LENS_MODEL)), latitude, longitude)


def _read_directory(exif: Image.Exif, tag: int) -> Mapping[int, Any]:
    try:
        return dict(exif.get_ifd(tag))
    except Exception:
        return {}


def _parse_date(value: Any) -> float | None:
    text = _parse_text(value)
    if text is None:
        return None
    try:
        date = datetime.strptime(text[:_DATE_CHARACTERS].replace("-", ":"), "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC)
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


def _parse_degrees(gps: Mapping[int, Any], tag: int, limit: int) -> float | None:
    try:
        degrees, minutes, seconds = (float(part) for part in gps[tag])
        value = degrees + minutes / 60 + seconds / 3600
        reference = _parse_text(gps.get(tag - 1)) or ""
    except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None
    if not math.isfinite(value) or not 0 <= value <= limit:
        return None
    return round(-value if reference[:1].upper() in ("S", "W") else value, 6)
