"""Data that the browser needs for each image on the Label page: URLs, suggested name, and similar images."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from app.urls import build_image_url
from app.view_models.cluster_view import MOST_TYPICAL, ClusterView
from crlc.annotations.state import AnnotationState
from crlc.data.image_lookup import read_records
from crlc.data.manifest import ImageRecord
from crlc.paths import to_printable

NEAREST_COUNT, TYPICAL_COUNT = 6, 6
_LARGE_PIXELS, _TILE_PIXELS = 720, 120

Item = dict[str, Any]


class LabelItems:
    """Items of the images of a view, built once: the user labels faster than they can be built again."""

    def __init__(self, view: ClusterView) -> None:
        """Create an empty cache of items."""
        self._view = view
        self._items: dict[int, Item] = {}
        self._clusters: dict[int, Item] = {}

    def build_items(self, ids: Sequence[int], reasons: dict[int, str]) -> list[Item]:
        """Return the items of images, without those that the view does not have.

        Args:
            ids: the images, in order.
            reasons: reasons of the suggestions, by image id.
        """
        new = [image for image in ids if image not in self._items]
        if new:
            rows = self._view.find_rows(np.asarray(sorted(new), np.int64))
            near = {int(row): self._view.find_nearest(int(row), NEAREST_COUNT) for row in rows}
            shown = np.concatenate([rows, *(found.rows for found in near.values())]).astype(np.int64)
            records = read_records(self._view.dataset, self._view.ids[np.unique(shown)])
            for row in rows.tolist():
                record = records.get(int(self._view.ids[row]))
                if record is not None:
                    found = near[row]
                    tiles = [
                        self._build_tile(records, int(other), f"{similarity:.2f}")
                        for other, similarity in zip(found.rows, found.similarity, strict=True)
                    ]
                    item = self._build_item(row, record, reasons)
                    self._items[record.id] = item | {"near": list(filter(None, tiles))}
        return [self._items[image] for image in ids if image in self._items]

    def build_clusters(self, items: Sequence[Item]) -> dict[int, Item]:
        """Return the clusters of some items by number: name, colour and typical images."""
        numbers = {item["cluster"] for item in items}
        for number in sorted(numbers - self._clusters.keys()):
            self._clusters[number] = self._build_cluster(number)
        return {number: self._clusters[number] for number in sorted(numbers)}

    def _build_item(self, row: int, record: ImageRecord, reasons: dict[int, str]) -> Item:
        view = self._view
        cluster = int(view.clusters[row])
        confidence = None if view.confidence is None else float(view.confidence[row])
        return {
            "id": record.id,
            "large": build_image_url(view.dataset.name, record.id, record.hash or "", _LARGE_PIXELS),
            "src": self._build_tile_url(record),
            "title": to_printable(record.path),
            "cluster": cluster,
            "confidence": confidence,
            "reason": reasons.get(record.id, ""),
        }

    def _build_cluster(self, number: int) -> Item:
        view = self._view
        rows = np.flatnonzero(view.clusters == number)
        typical = view.sort_rows(rows, MOST_TYPICAL)[:TYPICAL_COUNT]
        records = read_records(view.dataset, view.ids[typical])
        return {
            "text": view.format_cluster(number),
            "name": view.cluster_names.get(number),
            "colour": view.get_colour(number),
            "typical": list(filter(None, (self._build_tile(records, int(row), "") for row in typical))),
        }

    def _build_tile(self, records: dict[int, ImageRecord], row: int, caption: str) -> Item | None:
        record = records.get(int(self._view.ids[row]))
        if record is None:
            return None
        cluster = int(self._view.clusters[row])
        return {
            "id": record.id,
            "src": self._build_tile_url(record),
            "title": f"{to_printable(record.path)} · {self._view.format_cluster(cluster)}",
            "caption": caption,
            "colour": self._view.get_colour(cluster),
        }

    def _build_tile_url(self, record: ImageRecord) -> str:
        return build_image_url(self._view.dataset.name, record.id, record.hash or "", _TILE_PIXELS)


def list_decision_states(
    ids: Sequence[int], annotation_state: AnnotationState, skipped: Collection[int]
) -> list[list[Any]]:
    """Return `[id, label, is_excluded, is_skipped]` for each image."""
    if not ids:
        return []
    labels, excluded = annotation_state.get_labels(ids), annotation_state.is_excluded(ids)
    return [
        [image, label, bool(out), image in skipped]
        for image, label, out in zip(ids, labels, excluded.tolist(), strict=True)
    ]
