"""A folder of photographs for the screenshots: random crops of ten freely licensed photographs.

They come with scikit-image and scikit-learn (`pip install scikit-image`), so that nothing is downloaded. Photographs of
scikit-image: public domain or CC0, see `skimage/data/_fetchers.py`. china.jpg (danielbuechele) and flower.jpg
(vultilion) of scikit-learn: CC BY 2.0.
"""

from __future__ import annotations

import random
from importlib.util import find_spec
from pathlib import Path

from PIL import Image, ImageEnhance

PHOTOGRAPHS = {
    "skimage/data": (
        *("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "hubble_deep_field.jpg"),
        *("brick.png", "grass.png", "gravel.png"),
    ),
    "sklearn/datasets/images": ("china.jpg", "flower.jpg"),
}
NAMES = {"chelsea": "cat", "hubble_deep_field": "galaxies", "china": "palace"}
"""Names of the photographs whose file is called otherwise than what it shows."""

_CROPS_PER_PHOTOGRAPH = 60
_SIDE_PIXELS = 200
_CROP_FRACTIONS = (0.3, 0.6)
"""Side of a crop, relative to the shorter side of the photograph."""

_BRIGHTNESS = (0.75, 1.25)


def save_photographs(folder: Path) -> int:
    """Save random crops of all photographs to a folder, and return their number."""
    draw = random.Random(0)
    folder.mkdir(parents=True)
    for package_folder, names in PHOTOGRAPHS.items():
        for name in names:
            with Image.open(_find_package_file(f"{package_folder}/{name}")) as image:
                photograph = image.convert("RGB")
            for number in range(_CROPS_PER_PHOTOGRAPH):
                _cut(photograph, draw).save(folder / f"{Path(name).stem}-{number:03}.jpg", quality=88)
    return len(list(folder.iterdir()))


def _cut(photograph: Image.Image, draw: random.Random) -> Image.Image:
    side = round(min(photograph.size) * draw.uniform(*_CROP_FRACTIONS))
    left, top = draw.randint(0, photograph.width - side), draw.randint(0, photograph.height - side)
    crop = photograph.resize((_SIDE_PIXELS, _SIDE_PIXELS), box=(left, top, left + side, top + side))
    return ImageEnhance.Brightness(crop).enhance(draw.uniform(*_BRIGHTNESS))


def _find_package_file(path: str) -> Path:
    """Return a file of an installed package, without importing the package."""
    package, _, rest = path.partition("/")
    found = find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"{package} is not installed: pip install scikit-image scikit-learn")
    return Path(found.origin).parent / rest
