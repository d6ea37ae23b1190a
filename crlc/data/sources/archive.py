"""Source for a .zip archive of images, which is read in place."""

from __future__ import annotations

import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import cached_property

from crlc.data.sources.base import MAX_FILE_BYTES, SourceEntry, UnreadableError, parse_split
from crlc.data.sources.folder import is_hidden
from crlc.errors import SourceError

_ENCRYPTED = 0x1


class ZipSource:
    """The files of a zip archive, with their paths inside it."""

    kind = "zip"
    has_folders = True

    def __init__(self, location: str) -> None:
        """Read the directory of the archive.

        Raises:
            SourceError: it is not a readable zip archive.
        """
        self.location = location
        try:
            self._archive.namelist()
        except (OSError, zipfile.BadZipFile, ValueError) as error:
            raise SourceError(
                f"{location} cannot be read as a zip archive: {error}.", advice="Check that the file is complete."
            ) from None

    def __reduce__(self) -> tuple[type[ZipSource], tuple[str]]:
        """Pickle only the path: every worker opens the archive itself."""
        return ZipSource, (self.location,)

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.location)

    def list_entries(self) -> Iterator[SourceEntry]:
        """Yield the members; of two with the same name, the later one, like other zip programs."""
        top_is_splits = self._top_folders_are_splits()
        for name, member in self._archive.NameToInfo.items():
            if member.is_dir() or any(is_hidden(part) for part in name.split("/") if part not in ("", "..")):
                continue
            split = parse_split(name.split("/", 1)[0]) if top_is_splits and "/" in name else None
            yield SourceEntry(
                name, member.file_size, f"{member.date_time}:{member.CRC:08x}", split, None, _find_problem(name, member)
            )

    def read(self, path: str) -> bytes:
        """Return the content of one member."""
        try:
            member = self._archive.getinfo(path)
            with self._archive.open(member) as stream:
                # Reading one byte more than the header states detects a wrong header.
                content = stream.read(member.file_size + 1)
        except KeyError:
            raise UnreadableError("the file is no longer in the archive") from None
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, UnicodeError, EOFError) as error:
            raise UnreadableError(f"damaged inside the archive ({error})") from None
        except (NotImplementedError, RuntimeError) as error:
            raise UnreadableError(f"the archive's compression or password is not supported ({error})") from None
        except OSError as error:
            raise UnreadableError(f"the archive could not be read ({error.strerror or error})") from None
        return content

    def _top_folders_are_splits(self) -> bool:
        tops = {name.split("/", 1)[0] for name in self._archive.NameToInfo if "/" in name}
        tops = {top for top in tops if not is_hidden(top)}
        return bool(tops) and all(parse_split(top) for top in tops)


def _find_problem(name: str, member: zipfile.ZipInfo) -> str | None:
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or os.path.isabs(name):
        return "its name points outside the archive"
    if member.flag_bits & _ENCRYPTED:
        return "encrypted: unpack it with its password and import the folder"
    if member.file_size > MAX_FILE_BYTES:
        return "larger than 1 GiB"
    return None
