"""Data of images for the browser on the Label page."""

from __future__ import annotations

import pytest

from app.view_models.label_items import LabelItems, list_decision_states
from crlc.annotations.store import AnnotationStore
from tests.fixtures.tiny_run import CONFIDENCES


def test_label_items_hold_images_clusters_and_decisions(view):
    items = LabelItems(view)
    (item,) = items.build_items([2, 999], {2: "why"})
    assert (item["title"], item["cluster"], item["reason"]) == ("a/00001.png", 0, "why")
    assert item["confidence"] == pytest.approx(CONFIDENCES[1])
    assert {tile["id"] for tile in item["near"][:2]} == {1, 3}  # four degrees away on either side
    assert item["large"].startswith("/images/set/2?side=720")
    cluster = items.build_clusters([item])[0]
    assert (cluster["text"], cluster["name"], len(cluster["typical"])) == ("cluster 0", None, 4)
    with AnnotationStore(view.dataset) as annotations:
        annotations.label([2], "x")
        annotations.exclude([3])
        assert list_decision_states([2, 3, 4], annotations.refresh(), {4}) == [
            [2, "x", False, False],
            [3, None, True, False],
            [4, None, False, True],
        ]
