"""Categories of an export for other tools: one per distinct cluster name or label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crlc.clusters.probabilities import MISSING
from crlc.export.rows import RowChunk, RunExport


@dataclass(frozen=True)
class Categories:
    """Names of all clusters and labels of an export. A label and a cluster with the same name are one category."""

    names: tuple[str, ...]
    cluster_codes: NDArray[np.int64]
    """Index in `names` of each cluster number; `MISSING` for numbers without images."""

    label_codes: NDArray[np.int64]
    """Index in `names` of each label name of the label set."""

    @classmethod
    def from_export(cls, export: RunExport) -> Categories:
        """Collect the names: clusters by number, then labels. A cluster without a name is called "cluster 3"."""
        indices: dict[str, int] = {}
        cluster_codes = np.full(export.clusters.first_new, MISSING, np.int64)
        for number in export.clusters.numbers:
            name = export.names.get(number, f"cluster {number}")
            cluster_codes[number] = indices.setdefault(name, len(indices))
        labels = [indices.setdefault(name, len(indices)) for name in export.labelled.names]
        return cls(tuple(indices), cluster_codes, np.array(labels, np.int64))

    def get_cluster_categories(self, chunk: RowChunk) -> NDArray[np.int64]:
        """Return the category of the cluster of each image, or `MISSING`."""
        return np.where(chunk.is_assigned, self.cluster_codes[np.maximum(chunk.cluster, 0)], MISSING)

    def get_label_categories(self, chunk: RowChunk) -> NDArray[np.int64]:
        """Return the category of the manual label of each image, or `MISSING`."""
        codes = np.full(len(chunk.ids), MISSING, np.int64)
        has_label = chunk.label.codes != MISSING
        codes[has_label] = self.label_codes[chunk.label.codes[has_label]]
        return codes

    def get_final_categories(self, chunk: RowChunk) -> NDArray[np.int64]:
        """Return the category of the label of each image, of its cluster if it has no label, or `MISSING`."""
        labels = self.get_label_categories(chunk)
        return np.where(labels == MISSING, self.get_cluster_categories(chunk), labels)
