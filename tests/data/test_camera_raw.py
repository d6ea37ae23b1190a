"""RAW photographs that begin as TIFF: stand-ins written by hand, with the layout of several cameras."""

from __future__ import annotations

import io
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.data.camera_raw import is_camera_raw
from crlc.data.decode import decode_photo, decode_square, read_image_size
from crlc.data.sources import UnreadableError
from crlc.workspace import Workspace
from tests.fixtures.images import save_images

RED, GREEN = (200, 30, 40), (20, 190, 60)
SHORT, LONG, ASCII, BYTE = 3, 4, 2, 1
_CODES = {SHORT: "H", LONG: "I", BYTE: "B"}


def encode_jpeg(colour: tuple[int, int, int], width: int, height: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(stream, "JPEG", quality=90)
    return stream.getvalue()


class TiffBuilder:
    """Builder of TIFF files with any tags."""

    def __init__(self, order: str = "<", mark: bytes = b"") -> None:
        self.order = order
        self.content = bytearray((b"II*\0" if order == "<" else b"MM\0*") + bytes(4) + mark.ljust(8, b"\0"))

    def add(self, part: bytes) -> int:
        """Append bytes at an even position; return it."""
        self.content += bytes(len(self.content) % 2)
        start = len(self.content)
        self.content += part
        return start

    def add_directory(self, tags: dict[int, tuple[int, object]], following: int = 0) -> int:
        entries = b""
        for tag, (kind, value) in sorted(tags.items()):
            values = value if isinstance(value, tuple) else (value,)
            data = value if kind == ASCII else struct.pack(f"{self.order}{len(values)}{_CODES[kind]}", *values)
            count = len(data) if kind == ASCII else len(values)
            inline = data.ljust(4, b"\0") if len(data) <= 4 else struct.pack(f"{self.order}I", self.add(data))
            entries += struct.pack(f"{self.order}HHI", tag, kind, count) + inline
        return self.add(struct.pack(f"{self.order}H", len(tags)) + entries + struct.pack(f"{self.order}I", following))

    def finish(self, first: int) -> bytes:
        self.content[4:8] = struct.pack(f"{self.order}I", first)
        return bytes(self.content)

    def build_thumbnail(self) -> dict[int, tuple[int, object]]:
        """Return the tags of an uncompressed thumbnail of 16 x 12 pixels, which Pillow decodes."""
        start = self.add(bytes(GREEN) * (16 * 12))
        return {
            254: (LONG, 1), 256: (SHORT, 16), 257: (SHORT, 12), 258: (SHORT, (8, 8, 8)), 259: (SHORT, 1),
            262: (SHORT, 2), 271: (ASCII, b"NIKON\0"), 272: (ASCII, b"NIKON D3\0"), 273: (LONG, start),
            277: (SHORT, 3), 278: (SHORT, 12), 279: (LONG, 16 * 12 * 3), 306: (ASCII, b"2024:05:01 12:00:07\0"),
        }  # fmt: skip


def make_nef(order: str = "<", *, preview: bytes) -> bytes:
    """Return a file of the layout of NEF: a thumbnail with directories for the preview and for the sensor."""
    tiff = TiffBuilder(order)
    start = tiff.add(preview)
    inner = tiff.add_directory({254: (LONG, 1), 259: (SHORT, 6), 513: (LONG, start), 514: (LONG, len(preview))})
    sensor = tiff.add_directory({254: (LONG, 0), 259: (SHORT, 34713), 262: (SHORT, 32803), 273: (LONG, 8)})
    return tiff.finish(tiff.add_directory({**tiff.build_thumbnail(), 274: (SHORT, 6), 330: (LONG, (inner, sensor))}))


def make_dng(preview: bytes) -> bytes:
    """Return a file of the layout of DNG: previews are JPEG-compressed strips, the sensor is lossless JPEG."""
    tiff = TiffBuilder()
    start = tiff.add(preview)
    inner = tiff.add_directory({254: (LONG, 1), 259: (SHORT, 7), 273: (LONG, start), 279: (LONG, len(preview))})
    large = encode_jpeg(GREEN, 800, 600)  # stands for the sensor: it must not be taken for the preview
    sensor = {
        254: (LONG, 0),
        259: (SHORT, 7),
        262: (SHORT, 32803),
        273: (LONG, tiff.add(large)),
        279: (LONG, len(large)),
    }
    tags = {**tiff.build_thumbnail(), 330: (LONG, (tiff.add_directory(sensor), inner)), 50706: (BYTE, (1, 4, 0, 0))}
    return tiff.finish(tiff.add_directory(tags))


def make_cr2(preview: bytes) -> bytes:
    """Return a file of the layout of CR2: the strip of the first directory is the preview."""
    tiff = TiffBuilder(mark=b"CR\x02\0")
    start, small = tiff.add(preview), encode_jpeg(GREEN, 160, 120)
    thumbnail = tiff.add_directory({513: (LONG, tiff.add(small)), 514: (LONG, len(small))})
    tags = {259: (SHORT, 6), 271: (ASCII, b"Canon\0"), 273: (LONG, start), 279: (LONG, len(preview))}
    return tiff.finish(tiff.add_directory(tags, thumbnail))


LARGE, SMALL = encode_jpeg(RED, 600, 400), encode_jpeg(RED, 160, 120)


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        (make_nef("<", preview=LARGE), (400, 600)),
        (make_nef(">", preview=LARGE), (400, 600)),
        (make_dng(LARGE), (600, 400)),
        (make_cr2(LARGE), (600, 400)),
    ],
    ids=["NEF", "NEF, big-endian", "DNG", "CR2"],
)
def test_raw_photograph_is_read_as_its_largest_jpeg(raw: bytes, size: tuple[int, int]):
    found, square, metadata = decode_photo(raw, 32)
    assert found == size  # upright
    np.testing.assert_allclose(np.asarray(square).mean(axis=(0, 1)), RED, atol=6)
    assert metadata.camera in ("NIKON D3", "Canon")
    assert metadata.taken == (1714564807 if metadata.camera == "NIKON D3" else None)
    assert read_image_size(raw) == (600, 400)


@pytest.mark.parametrize(
    "raw",
    [
        make_nef(preview=SMALL),
        make_nef(preview=b"\xff\xd8\xff damaged"),
        make_nef(preview=b""),
        make_dng(SMALL),
        make_cr2(SMALL),
        TiffBuilder().finish(1 << 31)[:8] + b"CR\x02\0",
    ],
)
def test_raw_photograph_with_thumbnails_alone_is_refused(raw: bytes):
    with pytest.raises(UnreadableError, match="RAW photograph"):
        decode_square(raw, 16)


def test_damaged_raw_photographs_end_with_a_reason():
    raw = make_dng(LARGE)
    for end in range(8, len(raw), 211):
        with suppress(UnreadableError):  # any other error fails the test
            decode_square(raw[:end], 16)
    tiff = TiffBuilder()
    loop = len(tiff.content)
    assert tiff.add_directory({330: (LONG, loop), 50706: (BYTE, (1, 4, 0, 0))}, loop) == loop
    with pytest.raises(UnreadableError, match="RAW photograph"):
        decode_square(tiff.finish(loop), 16)


def test_ordinary_tiff_of_a_camera_is_read_as_itself():
    stream = io.BytesIO()
    exif = Image.Exif()
    exif.update({271: "NIKON", 272: "NIKON D3"})
    page, thumbnail = (Image.new("RGB", size, RED) for size in ((300, 200), (150, 100)))
    page.save(stream, "TIFF", save_all=True, append_images=[thumbnail], exif=exif)
    raw = stream.getvalue()
    assert not is_camera_raw(raw)
    size, _, metadata = decode_photo(raw, 16)
    assert (size, metadata.camera) == ((300, 200), "NIKON D3")
    scan = TiffBuilder()  # a reduced image without directories inside, or without a camera
    tags = scan.build_thumbnail()
    assert decode_photo(scan.finish(scan.add_directory(tags)), 8).size == (16, 12)
    del tags[271]
    assert decode_photo(scan.finish(scan.add_directory({**tags, 330: (LONG, (8, 8))})), 8).size == (16, 12)


def test_import_names_raw_photographs_that_it_cannot_read(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 1)
    (tmp_path / "set" / "good.nef").write_bytes(make_nef(preview=LARGE))
    (tmp_path / "set" / "small.nef").write_bytes(make_nef(preview=SMALL))
    _, report = workspace.import_dataset(str(tmp_path / "set"))
    assert report.readable == 2
    assert [(reason.startswith("a RAW photograph"), count) for reason, count in report.unreadable.items()] == [
        (True, 1)
    ]
