"""Tiles of a gallery: their captions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from app.components.gallery.tiles import build_tiles
from app.view_models.view_cache import open_run_view
from crlc.workspace import Workspace
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import write_tiny_run


def test_tile_without_a_caption_shows_its_file_name_shortened_in_the_middle(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "in", 12)
    (tmp_path / "in" / "00003.png").rename(tmp_path / "in" / "summer in Bonn 0003.png")
    dataset, _ = workspace.import_dataset(str(tmp_path / "in"))
    view = open_run_view(workspace, write_tiny_run(workspace, dataset))
    tiles = build_tiles(view, np.arange(12), lambda index: "25%" if index == 0 else None)
    captions = {tile.title.partition(" · ")[0]: tile.caption for tile in tiles}
    assert captions["00000.png"] == "25%"
    assert captions["00001.png"] == "00001.png"
    assert captions["summer in Bonn 0003.png"] == "summer …003.png"
