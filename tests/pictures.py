"""Images that tests make for themselves."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def picture(seed: int, width: int = 24, height: int = 24) -> Image.Image:
    """A smooth colour picture, different for every seed."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(0, 256, (3, 3, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def save_pictures(folder: Path, count: int, *, first_seed: int = 0, width: int = 24, height: int = 24) -> list[Path]:
    """Write `count` different PNG files; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:05d}.png" for number in range(count)]
    for seed, file in enumerate(files, start=first_seed):
        picture(seed, width, height).save(file)
    return files


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def raw_png(width: int, height: int, bit_depth: int, colour_type: int, rows: bytes, extra: bytes = b"") -> bytes:
    """A PNG put together by hand: for depths that Pillow does not write, and for lies."""
    header = struct.pack(">IIBBBBB", width, height, bit_depth, colour_type, 0, 0, 0)
    data = png_chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + extra + data + png_chunk(b"IEND", b"")
