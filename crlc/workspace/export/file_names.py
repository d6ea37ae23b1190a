"""Names of files and folders that every file system takes."""

from __future__ import annotations

import re
import unicodedata

_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028-\u202e\u2066-\u2069]')
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)", re.IGNORECASE)
_LONGEST = 150
"""Bytes; file systems take 255, and a number may have to go in."""


def safe_file_name(name: str) -> str:
    """A name as near to the given one as Windows, macOS and Linux allow; never empty, hidden or a path.

    Different names may come out the same.
    """
    plain = _FORBIDDEN.sub("_", unicodedata.normalize("NFC", name))
    stem, dot, ending = plain.rpartition(".")
    if not stem or len(ending.encode()) > _LONGEST // 4:
        stem, dot, ending = plain, "", ""
    room = _LONGEST - len((dot + ending).encode())
    shortened = stem.encode()[:room].decode(errors="ignore") + dot + ending
    tidy = shortened.strip(" ").rstrip(" .")
    if not tidy or tidy.startswith(".") or _RESERVED.match(tidy):
        tidy = "_" + tidy.lstrip(".")
    return tidy


def numbered_name(name: str, number: int) -> str:
    """`a.png` with 2 is `a-2.png`."""
    stem, dot, ending = name.rpartition(".")
    return f"{stem}-{number}{dot}{ending}" if stem else f"{name}-{number}"
