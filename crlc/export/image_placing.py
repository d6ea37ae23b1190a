"""Links to original images, or copies of them, in a new folder."""

from __future__ import annotations

import errno
import io
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

from crlc.data.dataset import RELINK_ADVICE, ImageDataset
from crlc.data.decode import decode_whole
from crlc.data.sources import Source, UnreadableError
from crlc.errors import CrlcError, SourceError, UsageError
from crlc.export.destinations import explain_write_errors, require_new_folder
from crlc.formatting import format_count
from crlc.paths import to_printable

LINK_KINDS = ("absolute", "relative", "copy")


@contextmanager
def build_new_folder(folder: Path, dataset: ImageDataset) -> Iterator[Path]:
    """Yield a temporary folder that becomes `folder` at the end of the block. After an error, nothing is left behind.

    Args:
        folder: path of the new folder, which must not exist or must be empty.
        dataset: dataset with the original images, which must not contain the folder.

    Raises:
        UsageError: the folder cannot be used.
        CrlcError: the folder cannot be written.
    """
    require_new_folder(folder, dataset)
    target = Path(os.path.realpath(folder))
    # Built beside its destination: relative links stay valid, and the rename is atomic.
    building = target.parent / f".crlc-{uuid.uuid4().hex}.part"
    try:
        with explain_write_errors(folder):
            building.mkdir()
            yield building
            if target.exists():
                target.rmdir()  # raises an error if it is no longer empty
            building.rename(target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def make_placer(dataset: ImageDataset, kind: str) -> ImagePlacer:
    """Return the placer of a kind of link.

    Args:
        dataset: dataset of the images.
        kind: one of `LINK_KINDS`.

    Raises:
        UsageError: the kind is not known, or the images are not files that can be linked to.
        SourceError: the original images were moved or deleted.
    """
    if kind not in LINK_KINDS:
        raise UsageError(f"kind={kind!r} is not allowed: it must be one of {', '.join(LINK_KINDS)}.")
    source = dataset.source
    if kind == "copy":
        return _Copier(source)
    if not isinstance(source, FileSource):
        raise UsageError(
            f"The images of {dataset.name} are not single files (its source is: {source.kind}), so they cannot be "
            "linked to.",
            advice="Export copies instead of links.",
            parameters=("copy",),
        )
    return _Linker(source, relative=kind == "relative")


def require_readable_originals(dataset: ImageDataset, created: int, missing: int) -> None:
    """Check that an export has at least one image, unless all images were left out on purpose.

    Args:
        dataset: dataset of the images.
        created: number of created links or copies.
        missing: number of images whose original could not be read.

    Raises:
        SourceError: no original could be read.
    """
    if created or not missing:
        return
    advice = RELINK_ADVICE
    if dataset.info.options.placeholders:
        advice += " For vectors without files, export a table or the vectors instead."
    raise SourceError(
        f"None of the {format_count(missing, 'original image')} of {dataset.name} can be read: there is nothing to "
        "export.",
        advice=advice,
    )


class ImagePlacer(Protocol):
    """Creates a link or copy of one image."""

    stage: str

    def put(self, path: str, destination: Path) -> Path | None:
        """Create the image at `destination`; return its path, or `None` if the original cannot be read.

        Items of arrays are written as PNG: their names end in `.png`.

        Raises:
            FileExistsError: `destination` exists.
        """
        ...


class _Linker:
    """Creates symbolic links."""

    stage = "Linking"

    def __init__(self, source: FileSource, *, relative: bool) -> None:
        self._source, self._relative = source, relative

    def put(self, path: str, destination: Path) -> Path | None:
        """Create a link to the original image."""
        original = str(self._source.original(path))
        if not os.path.exists(original):
            return None
        if self._relative:
            folder, name = os.path.split(original)
            original = os.path.join(os.path.relpath(os.path.realpath(folder), destination.parent), name)
        try:
            os.symlink(original, destination)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP) or os.name == "nt":
                raise CrlcError(
                    f"{to_printable(str(destination))} cannot be a link: {error.strerror}.",
                    advice="Export copies instead of links.",
                    parameters=("copy",),
                ) from None
            raise
        return destination


class _Copier:
    """Copies files unchanged; items of arrays are written as PNG."""

    stage = "Copying"

    def __init__(self, source: Source) -> None:
        self._source = source

    def put(self, path: str, destination: Path) -> Path | None:
        """Copy the original image."""
        try:
            content = self._source.read(path)
            if not isinstance(content, bytes):
                destination = destination.with_name(f"{destination.name.removesuffix('.png')}.png")
                png = io.BytesIO()
                decode_whole(content, max(content.shape[:2])).save(png, "PNG")
                content = png.getvalue()
        except UnreadableError:
            return None
        with destination.open("xb") as stream:
            stream.write(content)
        return destination


@runtime_checkable
class FileSource(Protocol):
    """Source whose images are files on this computer."""

    def original(self, path: str) -> Path:
        """Return the path of the file."""
        ...
