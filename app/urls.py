"""URLs of images and CSV lists, which the routes in `app/server/routes` serve."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

MAX_GALLERY_IMAGES = 120
"""Maximum number of images in one response."""

ORIGINAL = "original"
"""Value of the parameter `side` for an image at its original resolution."""


def build_image_url(dataset: str, image_id: int, content_hash: str, side: int | None) -> str:
    """Return the permanent URL of an image: changed content has another URL.

    Args:
        dataset: name of the dataset.
        image_id: id of the image.
        content_hash: hash of its content.
        side: maximum of width and height in pixels; `None` for the original resolution.
    """
    return f"/images/{dataset}/{image_id}?side={ORIGINAL if side is None else side}&v={content_hash[:12]}"


def build_gallery_url(dataset: str, ids: Sequence[int], content_hashes: Sequence[str], side: int) -> str:
    """Return the permanent URL of several images: changed content has another URL."""
    state = hashlib.blake2b(" ".join(content_hashes).encode(), digest_size=6).hexdigest()
    return f"/galleries/{dataset}?side={side}&ids={','.join(map(str, ids))}&v={state}"


def build_problems_url(dataset: str) -> str:
    """Return the URL of the list of unreadable files of a dataset."""
    return f"/problems/{dataset}"


def build_duplicates_url(dataset: str) -> str:
    """Return the URL of the list of exact duplicates of a dataset."""
    return f"/duplicates/{dataset}"


def build_labels_url(dataset: str) -> str:
    """Return the URL of the labels of a dataset."""
    return f"/labels/{dataset}"
