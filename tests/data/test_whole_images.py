"""Whole originals: decoding without cropping, and random crops that reach their borders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from crlc.data.augmentation import RECIPES, AugmentationRecipe, WholeGeometry, make_view
from crlc.data.decode import decode_stretched
from crlc.data.whole_images import WholeImageReader
from crlc.errors import SourceError
from crlc.training.images import load_images
from crlc.training.inputs import ImageInputs
from crlc.workspace import Workspace
from tests.fixtures.broken_files import encode

CROP = AugmentationRecipe(crop=(0.2, 1.0), flip=0.5)
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def make_wide_image(height: int = 40) -> Image.Image:
    """Return a green image, three times as wide as high, with a red left and a blue right quarter."""
    pixels = np.full((height, 3 * height, 3), GREEN, np.uint8)
    pixels[:, : 3 * height // 4], pixels[:, -3 * height // 4 :] = RED, BLUE
    return Image.fromarray(pixels)


@pytest.mark.parametrize(("orientation", "shape"), [(1, (120, 40)), (6, (40, 120))])
def test_decode_stretched_keeps_the_borders_and_reports_the_upright_shape(orientation: int, shape: tuple[int, int]):
    exif = Image.Exif()
    exif[0x0112] = orientation
    found, square = decode_stretched(encode(make_wide_image(), "PNG", exif=exif), 32)
    pixels = np.asarray(square)
    assert (found, pixels.shape) == (shape, (32, 32, 3))
    first, last = (pixels[16, 0], pixels[16, -1]) if orientation == 1 else (pixels[0, 16], pixels[-1, 16])
    assert (tuple(first), tuple(last)) == (RED, BLUE)


def test_views_of_whole_images_have_the_area_and_aspect_ratio_of_the_recipe():
    count, size = 400, 65
    along = (torch.arange(size) + 0.5) / size
    # Red is the position along x and green that along y, as fractions of an original twice as wide as high.
    image = torch.stack([along.expand(size, size), along[:, None].expand(size, size), torch.zeros(size, size)])
    images = image.expand(count, -1, -1, -1).contiguous()
    whole = WholeGeometry(torch.full((count,), 2.0), 33)
    views = make_view(images, CROP, torch.Generator().manual_seed(0), whole=whole)
    assert views.shape == (count, 3, 33, 33)
    sides = [views[:, channel].amax(dim=(1, 2)) - views[:, channel].amin(dim=(1, 2)) for channel in (0, 1)]
    width, height = (side * 33 / 32 for side in sides)  # from the centres of the outer pixels to their edges
    assert bool(((2 * width / height) > 3 / 4 - 0.03).all() and ((2 * width / height) < 4 / 3 + 0.03).all())
    area = width * height
    assert float(area.min()) > 0.18
    assert float(area.max()) == pytest.approx(2 / 3, abs=0.05)  # the largest crop of 4:3 in an image of 2:1
    assert float(views[:, 0].amin()) < 0.02
    assert float(views[:, 0].amax()) > 0.98


def test_view_of_a_whole_image_without_crop_is_its_centre_square():
    found, square = decode_stretched(encode(make_wide_image(), "PNG"), 96)
    image = torch.from_numpy(np.array(square)).permute(2, 0, 1)[None] / 255
    whole = WholeGeometry(torch.tensor([found[0] / found[1]]), 32)
    view = make_view(image, RECIPES["none"], torch.Generator(), whole=whole)
    assert view.shape == (1, 3, 32, 32)
    torch.testing.assert_close(view[0, 1], torch.ones(32, 32), atol=0.02, rtol=0)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "wide").mkdir()
    for number in range(4):
        make_wide_image(40 + number).save(tmp_path / "wide" / f"{number}.png")
    workspace = Workspace(tmp_path / "workspace")
    workspace.import_dataset(str(tmp_path / "wide"))
    return workspace


@pytest.mark.parametrize("uses_originals", [False, True])
def test_crops_see_the_borders_of_originals_only(workspace: Workspace, uses_originals: bool):
    dataset = workspace.open_dataset("wide")
    images = load_images(dataset, dataset.get_default_size())
    inputs = ImageInputs(images, CROP, torch.device("cpu"), uses_originals=uses_originals)
    rows = inputs.read_view_rows(np.tile(np.arange(4), 10))
    views = inputs.draw_view(rows, torch.Generator().manual_seed(0), None)
    assert views.shape == (40, 3, images.size, images.size)
    assert bool((views[:, 2] > 0.9).any()) is uses_originals
    torch.testing.assert_close(inputs.read(np.arange(4))[:, 1], torch.ones(4, images.size, images.size))


def test_whole_image_reader_names_a_missing_original(workspace: Workspace, tmp_path: Path):
    (tmp_path / "wide" / "2.png").unlink()
    with pytest.raises(SourceError, match=r"2\.png"):
        WholeImageReader(workspace.open_dataset("wide")).read([1, 2, 3, 4], 16)
