"""Placeholders for images that are missing: a small pattern of squares that depends on the path alone."""

from __future__ import annotations

import colorsys
import hashlib
import io

from PIL import Image

_CELLS, _CELL_PIXELS = 8, 2
_BACKGROUND = (236, 238, 241)


class Placeholder(bytes):
    """Content of a placeholder: it is decoded like a file, but says nothing about the missing image."""


def make_placeholder(path: str) -> Placeholder:
    """Return a PNG of 16 px with a mirrored pattern in one colour.

    Different paths have different patterns, so that missing images are neither identical files nor near duplicates.
    """
    digest = hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    colour = tuple(int(255 * part) for part in colorsys.hls_to_rgb(digest[0] / 255, 0.5, 0.35))
    bits = int.from_bytes(digest[1:], "little")
    half = _CELLS // 2
    image = Image.new("RGB", (_CELLS, _CELLS), _BACKGROUND)
    for cell in range(_CELLS * half):
        if bits >> cell & 1:
            row, column = divmod(cell, half)
            image.putpixel((column, row), colour)
            image.putpixel((_CELLS - 1 - column, row), colour)
    stream = io.BytesIO()
    image.resize((_CELLS * _CELL_PIXELS,) * 2, Image.Resampling.NEAREST).save(stream, "PNG")
    # The pattern has 32 bits: the digest makes the file itself differ, too.
    return Placeholder(stream.getvalue() + digest)
