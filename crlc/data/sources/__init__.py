"""Where images come from. `opening.open_source` turns a path or a name into a source.

Kept light: worker processes import from here, and each kind of source brings its own libraries.
"""

from crlc.data.sources.base import Entry, RawImage, Source, UnreadableError

__all__ = ["Entry", "RawImage", "Source", "UnreadableError"]
