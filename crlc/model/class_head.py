"""Last layer of a network that recognises ImageNet's classes, which turns stored features into class probabilities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_CLASS_COUNT = 1000


class ImageNetClassifier(NamedTuple):
    """Linear classifier of ImageNet's 1,000 classes, in their usual order."""

    weight: NDArray[np.float32]
    """(1000, d), for the features `h`."""

    bias: NDArray[np.float32]
    """(1000,)."""


def build_classifier(weight: Tensor | None, bias: Tensor | None) -> ImageNetClassifier | None:
    """Return a linear layer as a classifier; `None` if it does not have 1,000 outputs with a bias."""
    if weight is None or bias is None or weight.dim() != 2 or len(weight) != _CLASS_COUNT:  # noqa: PLR2004
        return None
    return ImageNetClassifier(weight.detach().float().numpy(), bias.detach().float().numpy())
