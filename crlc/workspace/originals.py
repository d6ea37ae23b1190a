"""Whether the originals of a data set are still where they were."""

from __future__ import annotations

from crlc.data.dataset import ImageDataset
from crlc.data.sources import UnreadableError
from crlc.errors import SourceError
from crlc.names import printable

_LOOKED_AT = 4


def missing_originals(dataset: ImageDataset) -> str | None:
    """What is wrong with the place of the originals, in a sentence; none when some of them can be read there.

    Only a few images are looked at: a disk that is not plugged in lacks them all.
    """
    try:
        source = dataset.source
    except SourceError as error:
        return str(error)
    records = dataset.sample(_LOOKED_AT)
    for record in records:
        try:
            source.read(record.path)
        except UnreadableError:
            continue
        return None
    if not records:
        return None
    return (
        f"None of the images looked at are in {printable(source.location)} any more. "
        f"If the originals moved: relink {dataset.name} NEW-PATH."
    )
