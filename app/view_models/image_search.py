"""Search by image in a view: similar images, the cluster of a new image, and its place on the map."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from app.view_models.cluster_view import ClusterView, DatasetView, RunView
from crlc.analysis.maps.projections import place_new_images
from crlc.analysis.neighbours.exact import Neighbours
from crlc.arrays import FloatArray, ImageIds
from crlc.formatting import shorten_middle
from crlc.paths import to_printable
from crlc.services.search_by_image import (
    ImageFile,
    ImageFileMatches,
    search_exploration_by_image,
    search_run_by_image,
)

if TYPE_CHECKING:
    from crlc.services.explored_network import ExplorationEncoder
    from crlc.services.neighbours import ImageEncoder

_RESULTS = 60
_PLACING_NEIGHBOURS = 10
"""More neighbours would pull the image to the middle of the map."""

_MAX_NAME_CHARACTERS = 12
"""Maximum length of the file name on the map and in the filter bar: the cluster follows it, and must not be cut off."""

_MAX_ENCODERS = 2
"""A network takes about 50 MB."""

_encoders: OrderedDict[str, ImageEncoder | ExplorationEncoder] = OrderedDict()
_lock = threading.Lock()


class PlacedImage(NamedTuple):
    """A new image, which the map shows between its nearest images."""

    caption: str
    """File name and cluster, as the map shows them; safe text."""

    nearest: ImageIds
    similarity: FloatArray

    def place(self, view: ClusterView, method: str) -> tuple[float, float] | None:
        """Return its coordinates on a map of the view: the weighted mean of its nearest images; `None` without any."""
        coordinates = view.load_coordinates(method)
        if coordinates is None:
            return None
        is_there = np.isin(self.nearest, view.ids)
        rows = view.find_rows(self.nearest[is_there])
        if not len(rows):
            return None
        found = Neighbours(rows[None], self.similarity[is_there][None])
        x, y = place_new_images(coordinates, found)[0]
        return float(x), float(y)


class ImageSearchResult(NamedTuple):
    """Images similar to a file, most similar first."""

    ids: ImageIds
    similarity: FloatArray
    """Cosine similarity to the file, in the order of the ids."""

    title: str
    """Describes the images, with the cluster of the file; safe text."""

    placed: PlacedImage


def search_view_by_image(view: ClusterView, file: ImageFile) -> ImageSearchResult:
    """Find the images of a view that are most similar to a file.

    Raises:
        SourceError: the file is not a readable image.
        CrlcError: the network cannot be loaded.
    """
    found = _search(view, file)
    name = to_printable(file.name)
    confidence = "" if found.confidence is None else f" {found.confidence:.0%}"
    caption = f"{shorten_middle(name, _MAX_NAME_CHARACTERS)}: {view.format_cluster(found.cluster)}{confidence}"
    placed = PlacedImage(caption, found.ids[:_PLACING_NEIGHBOURS], found.similarity[:_PLACING_NEIGHBOURS])
    return ImageSearchResult(found.ids, found.similarity, f"similar to {caption}", placed)


def _search(view: ClusterView, file: ImageFile) -> ImageFileMatches:
    # Imports torch, which takes seconds in a new server.
    from crlc.services.explored_network import ExplorationEncoder
    from crlc.services.neighbours import ImageEncoder
    from crlc.training.device import choose_device

    device = choose_device("cpu")  # a GPU is for training
    with _lock:  # one search at a time: each uses all cores
        encoder = _encoders.pop(view.source_key, None)
        if isinstance(view, RunView):
            if not isinstance(encoder, ImageEncoder):
                encoder = ImageEncoder(view.analysis.run, device)
            result = search_run_by_image(view.analysis, view.neighbours, encoder, file, _RESULTS)
        else:
            assert isinstance(view, DatasetView)
            if not isinstance(encoder, ExplorationEncoder):
                encoder = ExplorationEncoder(view.dataset, view.exploration, device)
            result = search_exploration_by_image(view.exploration, view.kept_rows, encoder, file, _RESULTS)
        _encoders[view.source_key] = encoder
        while len(_encoders) > _MAX_ENCODERS:
            _encoders.popitem(last=False)
    return result
