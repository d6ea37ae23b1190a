"""Export formats, and the options, report and preview of an export."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crlc.analysis.maps.settings import MAP_METHODS
from crlc.errors import NotFoundError, UsageError
from crlc.export.image_placing import LINK_KINDS
from crlc.progress import ProgressCallback

if TYPE_CHECKING:
    from crlc.services.exporters import Exporter

DEFAULT_PREVIEW_ROWS = 12
FEATURE_KINDS = {"z": "Learned features (z)", "h": "Backbone features (h)"}
"""Feature vectors that can be exported, with their names on screen."""


@dataclass(frozen=True)
class ExportOptions:
    """Options of an export. Each format ignores the options that it does not use."""

    map: str | None = None
    """Method of the map whose coordinates are exported; `None` for any map that is stored already."""

    excluded: bool = True
    """True if tables contain excluded images, marked in a column. Other formats never contain them."""

    absolute_paths: bool = False
    """True if tables have a column with the absolute paths of the originals."""

    columns: bool = True
    """True if tables and exports for other tools have the columns of the dataset: EXIF, file, pixels, imported list."""

    links: str = LINK_KINDS[0]
    """Folders: absolute links, relative links, or copies."""

    features: str = "z"
    """Vectors: `z`, the learned features of the RL-head, or `h`, those of the backbone."""

    def __post_init__(self) -> None:
        """Validate the values.

        Raises:
            NotFoundError: there is no such map method.
            UsageError: there is no such kind of link or features.
        """
        if self.map is not None and self.map not in MAP_METHODS:
            raise NotFoundError(f"map={self.map!r} is not known.", advice=f"Choose one of: {', '.join(MAP_METHODS)}.")
        if self.features not in FEATURE_KINDS:
            allowed = ", ".join(FEATURE_KINDS)
            raise UsageError(f"features={self.features!r} is not allowed: it must be one of {allowed}.")
        if self.links not in LINK_KINDS:
            raise UsageError(f"links={self.links!r} is not allowed: it must be one of {', '.join(LINK_KINDS)}.")


@dataclass(frozen=True)
class ExportReport:
    """Result of an export: its path, a summary, and the images that were left out."""

    path: Path
    summary: str
    """One sentence for the user."""

    left_out: dict[str, int] = field(default_factory=dict)
    """Number of images or thumbnails that are missing from the export, by reason."""

    details: dict[str, Any] = field(default_factory=dict)
    """Counts for programs, as `export --json` prints them."""

    @property
    def text(self) -> str:
        """The summary, followed by the number of images that were left out."""
        reasons = [f"{count:,} {reason}" for reason, count in self.left_out.items() if count]
        return self.summary + (f" Left out: {', '.join(reasons)}." if reasons else "")


@dataclass(frozen=True)
class ExportPreview:
    """First rows of an export."""

    rows: list[dict[str, Any]]
    count: int
    """Number of all rows."""

    remarks: tuple[str, ...] = ()


_Writer = Callable[["Exporter", Path, "ExportOptions", ProgressCallback], "ExportReport"]
_Previewer = Callable[["Exporter", "ExportOptions", int], "ExportPreview"]


@dataclass(frozen=True)
class ExportFormat:
    """One export format."""

    key: str
    """Name in URLs and options."""

    title: str
    purpose: str
    """Purpose of the format, in one sentence."""

    write: _Writer
    preview: _Previewer | None = None
    suffix: str = ""
    """Suffix of the default file name; empty for a folder."""

    media_type: str = "application/octet-stream"
    has_coordinates: bool = False
    """True if the export contains map coordinates."""

    is_table: bool = False
    """True for a table of images, which may contain excluded images."""

    has_script: bool = False
    """True if a script is written beside the file: a download has both in a zip archive."""

    needs_network: bool = False
    """True if the export contains the trained network."""

    has_columns: bool = False
    """True if the export may have the columns of the dataset."""

    instructions: Callable[[Exporter, str], str] | None = None
    """Returns how to load an export at a path in its tool, as code; `None` if the file needs no explanation."""

    @property
    def is_folder(self) -> bool:
        """True if the export is a folder instead of a file."""
        return not self.suffix
