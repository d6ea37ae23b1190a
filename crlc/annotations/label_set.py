"""Set of labelled images, passed between annotations, CSV files, training and export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crlc.arrays import ImageIds, IntArray

LabelCodes = NDArray[np.int64]


@dataclass(frozen=True)
class LabelSet:
    """Images with one label each, by ascending image id. L is the number of images."""

    ids: ImageIds
    """Image ids, ascending, (L,)."""

    codes: LabelCodes
    """Label of each image as an index into `names`, (L,)."""

    names: tuple[str, ...]
    """Labels in use, in alphabetical order."""

    content_versions: IntArray
    """Content version of each image when it was labelled, (L,); 0 for labels that do not come from annotations."""

    warnings: tuple[str, ...] = ()
    """Sentences for the user about labels that were left out."""

    @staticmethod
    def from_mapping(labels: Mapping[int, str], warnings: tuple[str, ...] = ()) -> LabelSet:
        """Create a label set from a mapping of image ids to labels.

        Args:
            labels: label of each image id.
            warnings: sentences for the user about labels that were left out.
        """
        ids = np.array(sorted(labels), np.int64)
        names = tuple(sorted(set(labels.values())))
        code = {name: number for number, name in enumerate(names)}
        codes = np.array([code[labels[image]] for image in ids.tolist()], np.int64)
        return LabelSet(ids, codes, names, np.zeros(len(ids), np.int64), warnings)

    def __len__(self) -> int:
        """Return the number of labelled images."""
        return len(self.ids)

    @property
    def labels(self) -> list[str]:
        """Label of each image, in the order of `ids`."""
        return [self.names[code] for code in self.codes.tolist()]

    def to_mapping(self) -> dict[int, str]:
        """Return the label of each image by its id."""
        return dict(zip(self.ids.tolist(), self.labels, strict=True))

    def count_by_name(self) -> dict[str, int]:
        """Return the number of images of each label."""
        return dict(zip(self.names, np.bincount(self.codes, minlength=len(self.names)).tolist(), strict=True))

    def select(self, keep: NDArray[np.bool_]) -> LabelSet:
        """Return the images where `keep` is true, without the names that none of them has."""
        used, codes = np.unique(self.codes[keep], return_inverse=True)
        names = tuple(self.names[code] for code in used.tolist())
        return LabelSet(self.ids[keep], codes.astype(np.int64), names, self.content_versions[keep], self.warnings)

    def select_ids(self, ids: ArrayLike) -> LabelSet:
        """Return the labels of those images that are among `ids`."""
        return self.select(np.isin(self.ids, np.asarray(ids, np.int64)))

    def select_name(self, name: str) -> LabelSet:
        """Return the images that have one label."""
        code = self.names.index(name) if name in self.names else -1
        return self.select(self.codes == code)

    def find_positions(self, ids: ImageIds) -> NDArray[np.int64]:
        """Return the index in `ids` of each labelled image, (L,). `ids` must be ascending and contain all of them."""
        return np.searchsorted(ids, self.ids).astype(np.int64)

    def merge(self, other: LabelSet) -> LabelSet:
        """Return the union of both sets; labels of this set take precedence. All content versions become 0."""
        return LabelSet.from_mapping({**other.to_mapping(), **self.to_mapping()}, self.warnings + other.warnings)
