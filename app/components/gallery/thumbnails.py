"""A few images of a view in a row or grid; a click opens one."""

from __future__ import annotations

from app.components.gallery.image_grid import show_image_grid
from app.components.gallery.tiles import Rows, build_tile_images_url, build_tiles
from app.state.exploring import open_image
from app.view_models.cluster_view import ClusterView


def show_thumbnails(view: ClusterView, rows: Rows, *, key: str, columns: int) -> None:
    """Show a few images, which are loaded in one response.

    Args:
        view: the view that the images belong to.
        rows: rows of the images, in their order.
        key: key of the component.
        columns: number of columns.
    """
    tiles = build_tiles(view, rows)
    show_image_grid(tiles, build_tile_images_url(view, tiles), key=key, columns=columns, opened=open_image)
