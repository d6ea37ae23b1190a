"""A folder with every kind of odd, broken and hostile file, and what must become of each."""

from __future__ import annotations

import io
import os
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from tests.pictures import picture, png_chunk, raw_png

READABLE, SKIPPED = "readable", "skipped"


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def with_orientation(value: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = value
    return encoded(picture(11, 30, 20), "JPEG", exif=exif)


def sixteen_bit_grey() -> bytes:
    return encoded(Image.fromarray(np.linspace(0, 65535, 400).reshape(20, 20).astype(np.uint16)), "PNG")


def sixteen_bit_rgb() -> bytes:
    row = b"\0" + struct.pack(">HHH", 65535, 32768, 0) * 12
    return raw_png(12, 12, 16, 2, row * 12)


def transparent_palette() -> bytes:
    return encoded(picture(12).quantize(8), "PNG", transparency=0)


def frames() -> list[Image.Image]:
    return [picture(seed) for seed in range(3)]


def animated(kind: str) -> bytes:
    first, *rest = frames()
    return encoded(first, kind, save_all=True, append_images=rest)


def tiff_that_points_to_itself() -> bytes:
    """A directory whose successor is itself."""
    return struct.pack("<2sHIHHHIII", b"II", 42, 8, 1, 256, 3, 1, 1, 8)


def text_bomb() -> bytes:
    """A PNG whose compressed comment unpacks to 200 MB."""
    comment = b"Comment\0\0" + zlib.compress(b"\0" * 200_000_000, 9)
    return raw_png(4, 4, 8, 0, b"\0\0\0\0\0" * 4, png_chunk(b"zTXt", comment))


def heic() -> bytes:
    return struct.pack(">I4s4sI4s4s", 24, b"ftyp", b"heic", 0, b"mif1", b"heic") + b"\0" * 64


JPEG = encoded(picture(1, 64, 48), "JPEG")
PNG = encoded(picture(2, 64, 48), "PNG")

# File name -> (its content, what must become of it: readable, skipped, or words of the reason).
FILES: dict[str | bytes, tuple[bytes | Callable[[], bytes], str]] = {
    # odd, yet readable
    "plain.jpg": (JPEG, READABLE),
    "progressive.jpg": (lambda: encoded(picture(3), "JPEG", progressive=True), READABLE),
    "grey.jpg": (lambda: encoded(picture(4).convert("L"), "JPEG"), READABLE),
    "cmyk.jpg": (lambda: encoded(picture(5).convert("CMYK"), "JPEG"), READABLE),
    "turned.jpg": (lambda: with_orientation(6), READABLE),
    "orientation-out-of-range.jpg": (lambda: with_orientation(99), READABLE),
    "broken-exif.jpg": (lambda: encoded(picture(6), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff"), READABLE),
    "broken-colour-profile.jpg": (lambda: encoded(picture(7), "JPEG", icc_profile=b"nonsense"), READABLE),
    "trailing-garbage.jpg": (JPEG + b"\0garbage" * 100, READABLE),
    "one-bit.png": (lambda: encoded(picture(8).convert("1"), "PNG"), READABLE),
    "palette.png": (lambda: encoded(picture(9).quantize(16), "PNG"), READABLE),
    "palette-transparent.png": (transparent_palette, READABLE),
    "rgba.png": (lambda: encoded(picture(10).convert("RGBA"), "PNG"), READABLE),
    "grey-alpha.png": (lambda: encoded(picture(13).convert("LA"), "PNG"), READABLE),
    "sixteen-bit-grey.png": (sixteen_bit_grey, READABLE),
    "sixteen-bit-rgb.png": (sixteen_bit_rgb, READABLE),
    "float.tiff": (lambda: encoded(picture(14).convert("F"), "TIFF"), READABLE),
    "int32.tiff": (lambda: encoded(picture(15).convert("I"), "TIFF"), READABLE),
    "pages.tiff": (lambda: animated("TIFF"), READABLE),
    "animated.gif": (lambda: animated("GIF"), READABLE),
    "animated.webp": (lambda: animated("WEBP"), READABLE),
    "bitmap.bmp": (lambda: encoded(picture(16), "BMP"), READABLE),
    "icon.ico": (lambda: encoded(picture(17, 32, 32), "ICO"), READABLE),
    "plain.ppm": (lambda: encoded(picture(18), "PPM"), READABLE),
    "one-pixel.png": (lambda: encoded(picture(19, 1, 1), "PNG"), READABLE),
    "very-wide.png": (lambda: encoded(picture(20, 3000, 1), "PNG"), READABLE),
    "very-tall.png": (lambda: encoded(picture(21, 1, 3000), "PNG"), READABLE),
    "really-a-jpeg.txt": (lambda: encoded(picture(22), "JPEG"), READABLE),
    "really-a-jpeg.png": (lambda: encoded(picture(23), "JPEG"), READABLE),
    "no-extension": (lambda: encoded(picture(24), "PNG"), READABLE),
    "SHOUTED.JPG": (lambda: encoded(picture(25), "JPEG"), READABLE),
    "copy-of-plain.jpg": (JPEG, READABLE),
    # odd names
    b"not-utf8-\xff\xfe.png": (lambda: encoded(picture(26), "PNG"), READABLE),
    "line\nbreak.png": (lambda: encoded(picture(27), "PNG"), READABLE),
    "back\\slash.png": (lambda: encoded(picture(28), "PNG"), READABLE),
    "snow \u2603 and \U0001f600.png": (lambda: encoded(picture(29), "PNG"), READABLE),
    "right-to-left-\u202egnp.png": (lambda: encoded(picture(30), "PNG"), READABLE),
    "=HYPERLINK(1).png": (lambda: encoded(picture(31), "PNG"), READABLE),
    "<img src=x onerror=alert(1)>.png": (lambda: encoded(picture(32), "PNG"), READABLE),
    "quote'\"quote.png": (lambda: encoded(picture(33), "PNG"), READABLE),
    "n" * 251 + ".png": (lambda: encoded(picture(34), "PNG"), READABLE),
    "a/same-name.png": (lambda: encoded(picture(35), "PNG"), READABLE),
    "b/same-name.png": (lambda: encoded(picture(36), "PNG"), READABLE),
    "deep/" + "d/" * 40 + "deep.png": (lambda: encoded(picture(37), "PNG"), READABLE),
    # not for us
    ".hidden.png": (PNG, SKIPPED),
    ".git/object.png": (PNG, SKIPPED),
    "__MACOSX/._plain.jpg": (b"resource fork", SKIPPED),
    "Thumbs.db": (b"\xd0\xcf\x11\xe0", SKIPPED),
    # broken
    "empty.jpg": (b"", "empty"),
    "truncated.jpg": (JPEG[: len(JPEG) // 2], "truncated"),
    "truncated.png": (PNG[: len(PNG) // 2], "truncated"),
    "truncated.gif": (lambda: encoded(picture(38), "GIF")[:-200], "truncated"),
    "damaged-data.png": (PNG[:60] + b"\xff" * 200 + PNG[260:], "damaged"),
    "only-header.jpg": (JPEG[:2], "not an image"),
    "only-zeros.jpg": (bytes(4096), "only zeros"),
    "random.jpg": (lambda: np.random.default_rng(0).bytes(4096), "not an image"),
    "points-to-itself.tiff": (tiff_that_points_to_itself, "not an image"),
    # something else
    "notes.txt": (b"Shopping list: milk", "a text file"),
    "text.jpg": (b"I am not a picture", "a text file"),
    "page.png": (b"<!DOCTYPE html><title>404</title>", "a web page"),
    "drawing.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
    "paper.pdf": (b"%PDF-1.7\n", "PDF"),
    "photo.heic": (heic, "HEIC"),
    "film.mp4": (lambda: heic().replace(b"heic", b"isom").replace(b"mif1", b"isom"), "a video"),
    "pointer.jpg": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
    # hostile
    "bomb.png": (lambda: raw_png(60000, 60000, 8, 2, b"\0"), "too many pixels"),
    "comment-bomb.png": (text_bomb, "damaged"),
    "runs-a-program.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "PostScript"),
    "lies-about-size.png": (lambda: raw_png(2000, 2000, 8, 2, b"\0\0\0\0"), "truncated"),
}

# Made by other means than writing a file.
SPECIAL: dict[str, str] = {
    "link-to-picture.jpg": READABLE,
    "hard-link.jpg": READABLE,
    "link-to-nowhere.jpg": "a link to nowhere",
    "link-to-itself.jpg": "a link to nowhere",
    "link-to-zeros": "not an ordinary file",
    "link-to-passwords": "a text file",
    "pipe.jpg": "not an ordinary file",
    "socket.jpg": "not an ordinary file",
    "huge.jpg": "larger than 1 GiB",
    "archive.zip": "a zip archive",
}


def make_hostile_folder(folder: Path) -> dict[str, str]:
    """Fill `folder`; returns what must become of each path (undecodable bytes as surrogates)."""
    expected: dict[str, str] = {}
    for name, (content, fate) in FILES.items():
        path = os.fsdecode(name)
        expected[path] = fate
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content() if callable(content) else content)
    os.symlink("plain.jpg", folder / "link-to-picture.jpg")
    os.link(folder / "plain.jpg", folder / "hard-link.jpg")
    os.symlink("nothing-here", folder / "link-to-nowhere.jpg")
    os.symlink("link-to-itself.jpg", folder / "link-to-itself.jpg")
    os.symlink("/dev/zero", folder / "link-to-zeros")
    os.symlink("/etc/passwd", folder / "link-to-passwords")
    os.symlink("..", folder / "a" / "loop")
    os.symlink("../a", folder / "b" / "other-loop")
    os.mkfifo(folder / "pipe.jpg")
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(folder)  # a socket's path may only be short
    server.bind("socket.jpg")
    os.chdir(here)
    server.close()
    with (folder / "huge.jpg").open("wb") as stream:
        stream.write(JPEG)
        stream.truncate((1 << 30) + 1)  # a hole, so it takes no space
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("inside.png", PNG)
    return {**expected, **SPECIAL}
