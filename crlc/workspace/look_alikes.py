"""Images of a data set that look nearly the same, by their stored pixels: no run is needed."""

from __future__ import annotations

import numpy as np

from crlc.analysis.duplicates import check_bits, duplicates_by_look
from crlc.analysis.perceptual_hash import join_looks, looks_of
from crlc.data.dataset import ImageDataset
from crlc.errors import UsageError
from crlc.progress import ProgressCallback, Stage, no_progress
from crlc.workspace.curation import Curation
from crlc.workspace.run_analysis import SimilarImages

_BATCH = 1024
BITS = 3


def look_alikes(
    dataset: ImageDataset, curation: Curation, bits: int = BITS, report: ProgressCallback = no_progress
) -> list[SimilarImages]:
    """Groups of images that look alike, largest first; excluded ones are left out.

    Args:
        dataset: whose.
        curation: what people said about it.
        bits: how many of 64 bits of their hashes may differ, 0 to 4.
        report: told how far reading is.

    Raises:
        UsageError: the number of bits cannot work, or there is no image.
        NotFoundError: the import has not finished.
    """
    check_bits(bits)
    store = dataset.pixels(dataset.usual_size())
    ids = store.ids[~curation.is_excluded(store.ids)]
    if not len(ids):
        raise UsageError(f"{dataset.name} has no image that is not excluded.")
    stage = Stage("Reading images", len(ids), report)
    parts = []
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        parts.append(looks_of(store.read(batch)))
        stage.advance(len(batch))
    stage.finish()
    return [
        SimilarImages(np.asarray(ids[group.rows]), group.score) for group in duplicates_by_look(join_looks(parts), bits)
    ]
