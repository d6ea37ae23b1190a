"""Backbone that stands for vectors which the user imported: it has their length, but cannot compute them."""

from __future__ import annotations

import re

from torch import Tensor, nn

from crlc.data.imported_vectors import VECTORS, VECTORS_PREFIX
from crlc.errors import UsageError

_NAME = re.compile(rf"{VECTORS_PREFIX}([1-9][0-9]*)-([0-9a-f]+)")


class VectorBackbone(nn.Module):
    """Module without weights, in place of a backbone."""

    def forward(self, _: Tensor) -> Tensor:
        """Refuse to compute vectors.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "These clusters are based on imported vectors, so vectors of other images cannot be computed.",
            advice="Import the vectors of these images with the dataset, or train with the backbone default.",
        )


def parse_vectors_name(name: str) -> tuple[int, str]:
    """Return the length of the vectors, and the identity of the feature set, from the name of the backbone.

    Raises:
        UsageError: the name has another form.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageError(f"backbone={name!r} is not known.", advice=f"Imported vectors are called {VECTORS}.")
    return int(match[1]), f"{VECTORS}-{match[2]}"
