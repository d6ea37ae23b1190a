"""Search by image in a view: the place on the map, and the result for the page."""

from __future__ import annotations

import numpy as np
import pytest

from app.view_models.cluster_view import RunView
from app.view_models.image_search import PlacedImage, search_view_by_image
from crlc.errors import NotFoundError
from crlc.services.search_by_image import ImageFile
from tests.fixtures.tiny_run import COORDINATES


def test_new_image_is_placed_at_the_weighted_mean_of_its_nearest_images(view: RunView):
    placed = PlacedImage("new.png", np.array([1, 5, 99]), np.array([0.9, 0.7, 0.6], np.float32))
    # Image 99 is gone. Distances beyond the nearest are 0 and 0.2, their mean is 0.1: the weights are 1 and exp(-2).
    weights = np.array([1, np.exp(-2)]) / (1 + np.exp(-2))
    coordinates = view.load_coordinates("umap")
    np.testing.assert_allclose(placed.place(view, "umap"), weights @ coordinates[[0, 4]], atol=1e-5)
    assert coordinates.shape == COORDINATES.shape
    assert PlacedImage("new.png", np.array([99]), np.array([0.9], np.float32)).place(view, "umap") is None


def test_search_in_a_run_without_checkpoint_names_the_problem(view: RunView):
    with pytest.raises(NotFoundError, match="no checkpoint"):
        search_view_by_image(view, ImageFile(b"", "new.png"))
