"""What the browser needs to show of images on the Label page: addresses, the suggested name, images to compare with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.exploring.subject import Subject
from app.image_routes import image_url
from crlc.data.manifest import ImageRecord
from crlc.data.thumbnails import is_tiny
from crlc.names import printable
from crlc.workspace.curation import Curation
from crlc.workspace.image_lookup import records_of

NEAR, TYPICAL = 6, 6
_LARGE, _SMALL_SIDE = 720, 120

Item = dict[str, Any]
Rows = NDArray[np.int64]


class Items:
    """What is shown of each image of a subject; made once, as typing is quick."""

    def __init__(self, subject: Subject) -> None:
        """Take the subject."""
        self._subject = subject
        self._items: dict[int, Item] = {}
        self._clusters: dict[int, Item] = {}

    def of(self, ids: Sequence[int], reasons: dict[int, str]) -> list[Item]:
        """The images, in their order; those that are gone are left out."""
        new = [image for image in ids if image not in self._items]
        if new:
            rows = self._subject.rows_of(np.asarray(sorted(new), np.int64))
            near = {int(row): self._subject.nearest(int(row), NEAR) for row in rows}
            shown = np.concatenate([rows, *(found.rows for found in near.values())]).astype(np.int64)
            records = records_of(self._subject.dataset, self._subject.ids[np.unique(shown)])
            for row in rows.tolist():
                record = records.get(int(self._subject.ids[row]))
                if record is not None:
                    found = near[row]
                    others = [
                        self._tile(records, int(other), f"s {similarity:.2f}")
                        for other, similarity in zip(found.rows, found.similarity, strict=True)
                    ]
                    self._items[record.id] = self._item(row, record, reasons) | {"near": list(filter(None, others))}
        return [self._items[image] for image in ids if image in self._items]

    def clusters(self, items: Sequence[Item]) -> dict[int, Item]:
        """What is said of the clusters of some images: what they are called, and images typical of them."""
        wanted = {item["cluster"] for item in items}
        for number in sorted(wanted - self._clusters.keys()):
            self._clusters[number] = self._cluster(number)
        return {number: self._clusters[number] for number in sorted(wanted)}

    def _item(self, row: int, record: ImageRecord, reasons: dict[int, str]) -> Item:
        subject = self._subject
        cluster = int(subject.clusters[row])
        sure = None if subject.confidence is None else float(subject.confidence[row])
        return {
            "id": record.id,
            "large": image_url(subject.dataset.name, record.id, record.hash or "", _LARGE),
            "src": self._address(record),
            "small": is_tiny(record),
            "title": printable(record.path),
            "cluster": cluster,
            "sure": sure,
            "reason": reasons.get(record.id, ""),
        }

    def _cluster(self, number: int) -> Item:
        subject = self._subject
        rows = np.flatnonzero(subject.clusters == number)
        order = "most typical" if "most typical" in subject.orders() else subject.orders()[0]
        typical = subject.ordered(rows, order)[:TYPICAL]
        records = records_of(subject.dataset, subject.ids[typical])
        return {
            "text": subject.cluster_text(number),
            "name": subject.names.get(number),
            "colour": subject.colour_of(number),
            "typical": list(filter(None, (self._tile(records, int(row), "") for row in typical))),
        }

    def _tile(self, records: dict[int, ImageRecord], row: int, caption: str) -> Item | None:
        record = records.get(int(self._subject.ids[row]))
        if record is None:
            return None
        cluster = int(self._subject.clusters[row])
        return {
            "id": record.id,
            "src": self._address(record),
            "title": f"{printable(record.path)} · {self._subject.cluster_text(cluster)}",
            "caption": caption,
            "colour": self._subject.colour_of(cluster),
        }

    def _address(self, record: ImageRecord) -> str:
        return image_url(self._subject.dataset.name, record.id, record.hash or "", _SMALL_SIDE)


def states_of(ids: Sequence[int], curation: Curation, skipped: Collection[int]) -> list[list[Any]]:
    """Of each image: its id, its label, whether it is excluded, whether it was skipped."""
    if not ids:
        return []
    labels, excluded = curation.labels(ids), curation.is_excluded(ids)
    return [
        [image, label, bool(out), image in skipped]
        for image, label, out in zip(ids, labels, excluded.tolist(), strict=True)
    ]
