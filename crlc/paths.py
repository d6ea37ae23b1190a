r"""Lossless conversion of file names between bytes, `str` and printable text.

A file name may contain any byte; a terminal, JSON or CSV may not. Inside the program a path is a `str` that may
contain lone surrogates (Python's `surrogateescape` for bytes that are not UTF-8). On disk it is bytes. For users it is
*printable* text, in which a backslash is doubled and an unprintable character is written as \xNN or \uNNNN: one line,
valid Unicode, reversible.
"""

from __future__ import annotations

import os
import re
import stat
from urllib.parse import unquote, urlsplit

_LOWEST_ESCAPED_BYTE, _HIGHEST_ESCAPED_BYTE = 0xDC80, 0xDCFF  # surrogateescape's range
_ESCAPE = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_QUOTES, _FILE_SCHEME = ("'", '"'), "file:"
_WINDOWS_DRIVE = re.compile(r"/[A-Za-z]:")
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "'")
"""Characters that start a formula in a spreadsheet, and the apostrophe that prevents it."""


def encode_path(path: str) -> bytes:
    """Return a path as bytes, the form in which it is stored and sorted."""
    return path.encode("utf-8", "surrogateescape")


def decode_path(stored: bytes) -> str:
    """Return the path of stored bytes; the inverse of `encode_path`."""
    return stored.decode("utf-8", "surrogateescape")


def to_printable(path: str) -> str:
    """Return a path as one line of valid Unicode that `from_printable` converts back without loss."""
    if path.isprintable() and "\\" not in path:
        return path
    return "".join(map(_escape_character, path))


def from_printable(text: str) -> str:
    """Return the path of printable text; the inverse of `to_printable`."""
    return _ESCAPE.sub(_unescape, text)


def parse_typed_path(text: str) -> str:
    """Return the path that a user typed or pasted: without spaces and quotes around it, or from a `file://` URL.

    `~` is the home directory.
    """
    text = text.strip()
    while len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES:
        text = text[1:-1].strip()
    if not text.lower().startswith(_FILE_SCHEME):
        return os.path.expanduser(text)
    path = unquote(urlsplit(text.replace("#", "%23").replace("?", "%3F")).path, errors="surrogateescape")
    return path[1:] if _WINDOWS_DRIVE.match(path) else path


def refuse_special_file(path: str | os.PathLike[str]) -> None:
    """Raise an `OSError` if a pipe, socket or device is in the place of a file: reading it could wait for ever."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError("it is not a regular file")


def escape_formula(text: str) -> str:
    """Prefix text with an apostrophe if a spreadsheet would evaluate it as a formula."""
    return "'" + text if text.startswith(FORMULA_PREFIXES) else text


def unescape_formula(text: str) -> str:
    """Remove the apostrophe that `escape_formula` added."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA_PREFIXES) else text


def _escape_character(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    code = ord(character)
    if _LOWEST_ESCAPED_BYTE <= code <= _HIGHEST_ESCAPED_BYTE:
        return f"\\x{code - 0xDC00:02x}"
    # \x is used for raw bytes from 0x80 and for ASCII control characters, which is never ambiguous.
    if code < 0x80:  # noqa: PLR2004
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004


def _unescape(match: re.Match[str]) -> str:
    byte, *wide = match.groups()
    if byte is not None:
        value = int(byte, 16)
        return chr(value if value < 0x80 else 0xDC00 + value)  # noqa: PLR2004
    code = next((digits for digits in wide if digits is not None), None)
    return "\\" if code is None else chr(int(code, 16))
