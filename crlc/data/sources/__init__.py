"""Sources of images. `opening.open_source` opens the source of a path or name.

This module imports no large library, because worker processes import it; each kind of source imports its own.
"""

from crlc.data.sources.base import RawImage, Source, SourceEntry, UnreadableError

__all__ = ["RawImage", "Source", "SourceEntry", "UnreadableError"]
