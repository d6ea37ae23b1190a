"""Built-in datasets: scikit-learn's digits, and torchvision datasets, which are downloaded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from sys import stderr
from typing import Any
from urllib.error import URLError

import numpy as np
from numpy.typing import NDArray

from crlc.data.sources.arrays import ArrayPart, ArraySource
from crlc.data.sources.folder import make_stamp
from crlc.errors import SourceError

# The 20 super-classes of CIFAR-100 and, for each, its five classes (Krizhevsky, 2009).
CIFAR20_CLASSES = {
    "aquatic mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food containers": "bottle bowl can cup plate",
    "fruit and vegetables": "apple mushroom orange pear sweet_pepper",
    "household electrical devices": "clock keyboard lamp telephone television",
    "household furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large carnivores": "bear leopard lion tiger wolf",
    "large man-made outdoor things": "bridge castle house road skyscraper",
    "large natural outdoor scenes": "cloud forest mountain plain sea",
    "large omnivores and herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium-sized mammals": "fox porcupine possum raccoon skunk",
    "non-insect invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles 1": "bicycle bus motorcycle pickup_truck train",
    "vehicles 2": "lawn_mower rocket streetcar tank tractor",
}
_IDX_HEADER_BYTES = 16
_STL10_ITEM = (3, 96, 96)


def open_builtin(name: str, downloads: Path) -> ArraySource:
    """Open a built-in dataset.

    Args:
        name: a key of `BUILTIN_DATASETS`.
        downloads: folder of the downloaded files; missing ones are downloaded to it.

    Raises:
        SourceError: the files are missing and cannot be downloaded.
    """
    return ArraySource("builtin", name, BUILTIN_DATASETS[name](downloads))


def _load_digits(downloads: Path) -> list[ArrayPart]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    return [_save_array(downloads / "digits" / "images.npy", pixels, None, [str(value) for value in digits.target])]


def _load_cifar(kind: str, downloads: Path) -> list[ArrayPart]:
    from torchvision import datasets

    torchvision_class = datasets.CIFAR10 if kind == "cifar10" else datasets.CIFAR100
    superclass = {fine: coarse for coarse, fines in CIFAR20_CLASSES.items() for fine in fines.split()}
    parts = []
    for split in ("train", "test"):
        images = _fetch(torchvision_class, kind, downloads, train=split == "train")
        names = images.classes if kind != "cifar20" else [superclass[name] for name in images.classes]
        file = downloads / "unpacked" / f"{'cifar10' if kind == 'cifar10' else 'cifar100'}-{split}.npy"
        parts.append(_save_array(file, images.data, split, [names[target] for target in images.targets]))
    return parts


def _load_mnist(kind: str, downloads: Path) -> list[ArrayPart]:
    from torchvision import datasets

    torchvision_class = datasets.MNIST if kind == "mnist" else datasets.FashionMNIST
    parts = []
    for split in ("train", "test"):
        images = _fetch(torchvision_class, kind, downloads, train=split == "train")
        raw = Path(images.raw_folder) / f"{'train' if split == 'train' else 't10k'}-images-idx3-ubyte"
        names = [name.split(" - ")[0] if kind == "mnist" else name for name in images.classes]
        class_names = tuple(names[int(target)] for target in images.targets)
        parts.append(_make_part(raw, _IDX_HEADER_BYTES, tuple(images.data.shape), split, class_names))
    return parts


def _load_stl10(downloads: Path) -> list[ArrayPart]:
    from torchvision import datasets

    # torchvision checks and unpacks the files; its loader would keep 2.7 GB of unlabelled images in memory.
    images = _fetch(datasets.STL10, "stl10", downloads, split="test")
    folder = Path(images.root) / images.base_folder
    parts = []
    for split, stem in (("train", "train"), ("test", "test"), ("unlabelled", "unlabeled")):
        file = folder / f"{stem}_X.bin"
        count = file.stat().st_size // int(np.prod(_STL10_ITEM))
        class_names = None
        if split != "unlabelled":
            numbers = np.fromfile(folder / f"{stem}_y.bin", dtype=np.uint8)
            class_names = tuple(images.classes[number - 1] for number in numbers)
        # The order of axes in the file is channels, columns, rows.
        parts.append(_make_part(file, 0, (count, *_STL10_ITEM), split, class_names, axes=(2, 1, 0)))
    return parts


def _fetch(torchvision_class: Callable[..., Any], name: str, downloads: Path, **options: Any) -> Any:
    """Load a torchvision dataset from disk, or download it."""
    root = str(downloads)
    try:
        return torchvision_class(root, download=False, **options)
    except (RuntimeError, FileNotFoundError):
        pass  # not downloaded yet, or incomplete
    try:
        downloads.mkdir(parents=True, exist_ok=True)
        with redirect_stdout(stderr):  # standard output is for the result of a command
            return torchvision_class(root, download=True, **options)
    except (URLError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise SourceError(
            f"{name} is not in {root} and could not be downloaded ({reason}).",
            advice="Connect to the internet, put torchvision's copy there, or give the folder that has it.",
            parameters=("downloads",),
        ) from None


def _save_array(file: Path, pixels: NDArray[np.uint8], split: str | None, class_names: Sequence[str]) -> ArrayPart:
    """Write pixels to an uncompressed file, unless it exists, from which workers read single images."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(".part.npy")
        np.save(temporary, pixels)
        temporary.replace(file)
    offset = file.stat().st_size - pixels.nbytes
    return _make_part(file, offset, pixels.shape, split, tuple(class_names))


def _make_part(
    file: Path,
    offset: int,
    shape: tuple[int, ...],
    split: str | None,
    class_names: tuple[str, ...] | None,
    axes: tuple[int, ...] | None = None,
) -> ArrayPart:
    return ArrayPart(str(file), offset, shape, "|u1", axes, split, class_names, make_stamp(file.stat()))


BUILTIN_DATASETS: dict[str, Callable[[Path], list[ArrayPart]]] = {
    "digits": _load_digits,
    "cifar10": lambda downloads: _load_cifar("cifar10", downloads),
    "cifar20": lambda downloads: _load_cifar("cifar20", downloads),
    "cifar100": lambda downloads: _load_cifar("cifar100", downloads),
    "stl10": _load_stl10,
    "mnist": lambda downloads: _load_mnist("mnist", downloads),
    "fashion-mnist": lambda downloads: _load_mnist("fashion-mnist", downloads),
}
