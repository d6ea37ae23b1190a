"""Tests of thumbnails."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crlc.data.thumbnails import Thumbnail, make_thumbnail
from crlc.errors import NotFoundError
from crlc.workspace import Workspace
from tests.fixtures.images import save_images


def open_thumbnail(thumbnail: Thumbnail) -> Image.Image:
    return Image.open(io.BytesIO(thumbnail.content))


def test_thumbnail_has_the_aspect_of_the_original(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 1, width=300, height=150)
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    small = make_thumbnail(dataset, 1, 100)
    assert small.media_type == "image/jpeg"
    assert open_thumbnail(small).size == (100, 50)


def test_thumbnail_of_a_tiny_image_keeps_its_pixels(workspace: Workspace):
    dataset, _ = workspace.import_dataset("digits")
    small = make_thumbnail(dataset, 1, 100)
    assert small.media_type == "image/png"
    assert np.asarray(open_thumbnail(small))[0, :, 0].tolist() == [0, 0, 80, 207, 143, 16, 0, 0]


def test_thumbnail_comes_from_the_pixel_store_when_the_original_is_missing(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "set", 1, width=300, height=150)
    workspace.import_dataset(str(tmp_path / "set"))
    shutil.rmtree(tmp_path / "set")
    assert open_thumbnail(make_thumbnail(workspace.open_dataset("set"), 1, 200)).size == (160, 160)
    with pytest.raises(NotFoundError, match="no image 2"):
        make_thumbnail(workspace.open_dataset("set"), 2, 200)
