"""Tests of EXIF metadata: values of known blocks, and damaged ones."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from PIL.TiffImagePlugin import IFDRational, ImageFileDirectory_v2

from crlc.data.decode import decode_photo, read_metadata
from crlc.data.photo_metadata import PhotoMetadata
from tests.fixtures.images import make_image
from tests.fixtures.photographs import CHANGED, DIGITIZED, LENS, MAKE, MODEL, TAKEN, make_exif, make_photograph

GPS = {1: "S", 2: (33.0, 51.0, 36.0), 3: "E", 4: (151.0, 12.0, 18.0)}
NOON = datetime(2024, 5, 1, 12, 0, 7, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_metadata_is_read_from_every_format_with_exif(kind: str):
    exif = make_exif({MAKE: "Canon", MODEL: "Canon EOS R5", TAKEN: "2024:05:01 12:00:07", LENS: "RF 24-105"}, GPS)
    raw = make_photograph(0, exif, kind)
    expected = PhotoMetadata(NOON, "Canon EOS R5", "RF 24-105", -33.86, 151.205)
    assert decode_photo(raw, 16).metadata == pytest.approx(expected)
    assert read_metadata(raw) == pytest.approx(expected)


def test_metadata_of_a_tiff_is_read_before_pillow_closes_it():
    directory = ImageFileDirectory_v2()
    directory[MODEL], directory[0x8769], directory[0x8825] = "A1", {TAKEN: "2024:05:01 12:00:07"}, GPS
    stream = io.BytesIO()
    make_image(0).save(stream, "TIFF", tiffinfo=directory)
    expected = PhotoMetadata(NOON, "A1", None, -33.86, 151.205)
    assert decode_photo(stream.getvalue(), 16).metadata == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tags", "camera"),
    [
        ({MAKE: "NIKON CORPORATION", MODEL: "NIKON D90"}, "NIKON D90"),
        ({MAKE: "Apple", MODEL: "iPhone 12"}, "Apple iPhone 12"),
        ({MODEL: "  Holga \n120 "}, "Holga 120"),
        ({MAKE: "Agfa"}, "Agfa"),
        ({MAKE: "", MODEL: ""}, None),
        ({MODEL: "x" * 5000}, "x" * 100),
    ],
)
def test_camera_joins_make_and_model_without_repetition(tags: dict[int, str], camera: str | None):
    assert read_metadata(make_photograph(0, make_exif(tags))).camera == camera


@pytest.mark.parametrize(
    ("tags", "taken"),
    [
        ({TAKEN: "2024:05:01 12:00:07", CHANGED: "2025:01:01 00:00:00"}, NOON),
        ({TAKEN: "0000:00:00 00:00:00", DIGITIZED: "2024:05:01 12:00:07"}, NOON),
        ({CHANGED: "2024-05-01 12:00:07"}, NOON),
        ({TAKEN: "    :  :     :  :  "}, None),
        ({TAKEN: "2024:13:45 99:99:99"}, None),
        ({TAKEN: "0001:01:01 00:00:00"}, None),
        ({TAKEN: "yesterday"}, None),
    ],
)
def test_date_is_the_first_valid_one(tags: dict[int, str], taken: float | None):
    assert read_metadata(make_photograph(0, make_exif(tags))).taken == taken


@pytest.mark.parametrize(
    "gps",
    [
        {2: (33.0, 51.0, 36.0)},  # no longitude
        {1: "N", 2: (95.0, 0.0, 0.0), 3: "E", 4: (1.0, 0.0, 0.0)},
        {1: "N", 2: (IFDRational(0, 0), 0.0, 0.0), 3: "E", 4: (1.0, 0.0, 0.0)},
        {1: "N", 2: (0.0, 0.0, 0.0), 3: "E", 4: (0.0, 0.0, 0.0)},  # the receiver had no fix
        {1: "N", 2: (1.0, 2.0), 3: "E", 4: (1.0, 0.0, 0.0)},
    ],
)
def test_impossible_positions_are_missing(gps: dict[int, object]):
    found = read_metadata(make_photograph(0, make_exif({MODEL: "A1"}, gps)))
    assert (found.latitude, found.longitude, found.camera) == (None, None, "A1")


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow reports the damage; workers do not show it
def test_damaged_exif_blocks_never_fail_a_photograph():
    good = make_photograph(0, make_exif({MODEL: "A1", TAKEN: "2024:05:01 12:00:07", LENS: "L"}, GPS))
    start = good.index(b"Exif\0\0") + 6
    length = int.from_bytes(good[start - 8 : start - 6], "big") - 8
    expected = decode_photo(good, 16)
    for at in range(start, start + length):  # each byte of the block, destroyed in turn
        damaged = decode_photo(good[:at] + b"\xff" + good[at + 1 :], 16)
        assert damaged.size in (expected.size, expected.size[::-1])  # the orientation may be what was destroyed
        assert all(value is None or isinstance(value, (str, float)) for value in damaged.metadata)


def test_images_without_exif_have_no_metadata():
    assert decode_photo(make_photograph(0), 16).metadata == PhotoMetadata()
    assert read_metadata(make_photograph(0, kind="BMP")) == PhotoMetadata()
