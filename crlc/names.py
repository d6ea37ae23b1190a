r"""File names as text, without loss. A file name may hold any byte; a terminal, JSON or CSV may not.

Inside the program a path is a `str` that may hold lone surrogates (Python's way to carry bytes that
are not UTF-8). On disk it is bytes. For people it is *printable* text, where a backslash is doubled
and anything unprintable is written as \xNN or \uNNNN: one line, valid Unicode, reversible.
"""

from __future__ import annotations

import re

_LOWEST_ESCAPED_BYTE, _HIGHEST_ESCAPED_BYTE = 0xDC80, 0xDCFF  # surrogateescape's range
_ESCAPE = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")
"""What a spreadsheet takes for the beginning of a formula, and the apostrophe that keeps it from doing so."""


def path_to_bytes(path: str) -> bytes:
    """The bytes by which a path is stored and ordered."""
    return path.encode("utf-8", "surrogateescape")


def path_from_bytes(stored: bytes) -> str:
    """The inverse of `path_to_bytes`."""
    return stored.decode("utf-8", "surrogateescape")


def printable(path: str) -> str:
    """A path as one line of valid Unicode; `from_printable` gives it back exactly."""
    if path.isprintable() and "\\" not in path:
        return path
    return "".join(map(_printable_character, path))


def from_printable(text: str) -> str:
    """The inverse of `printable`."""
    return _ESCAPE.sub(_unescape, text)


def spreadsheet_safe(text: str) -> str:
    """Text that no spreadsheet takes for a formula: a leading apostrophe where needed."""
    return "'" + text if text.startswith(FORMULA_STARTS) else text


def from_spreadsheet_safe(text: str) -> str:
    """The inverse of `spreadsheet_safe`."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA_STARTS) else text


def _printable_character(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    code = ord(character)
    if _LOWEST_ESCAPED_BYTE <= code <= _HIGHEST_ESCAPED_BYTE:
        return f"\\x{code - 0xDC00:02x}"
    # \x stands for a raw byte of 0x80 and up, or an ASCII control character: never ambiguous.
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
