"""Filters of the images on the Explore page."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.view_models.cluster_view import RunView
from app.view_models.image_filters import (
    NO_LABEL,
    ImageFilters,
    compute_mask,
    decode_filters,
    describe_filters,
    encode_filters,
    find_excluded_ids,
    limit_filters,
)
from app.view_models.view_cache import open_run_view
from crlc.annotations.store import AnnotationStore
from crlc.workspace import Workspace
from tests.fixtures.tiny_run import import_tiny_dataset, write_tiny_run


@pytest.fixture
def annotated(workspace: Workspace, tmp_path: Path) -> RunView:
    """Return the view of a run with labels on images 1, 2 and 6, an exact copy of image 5, and image 12 excluded."""
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    shutil.copy(tmp_path / "set" / "b" / "00000.png", tmp_path / "set" / "b" / "copy.png")
    dataset, _ = workspace.import_dataset(str(tmp_path / "set"))
    with AnnotationStore(dataset) as annotations:
        annotations.label([1, 2], "cat")
        annotations.label([6], "dog")
        annotations.exclude([12])
    return open_run_view(workspace, write_tiny_run(workspace, dataset))


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (ImageFilters(), list(range(1, 12))),
        (ImageFilters(text="A/0000"), [1, 2, 3, 4]),
        (ImageFilters(clusters=(0, 2)), [1, 2, 3, 4, 9, 10, 11]),
        (ImageFilters(labels=("cat", "dog")), [1, 2, 6]),
        (ImageFilters(labels=(NO_LABEL,), clusters=(0,)), [3, 4]),
        (ImageFilters(class_name="b"), [5, 6, 7, 8]),
        (ImageFilters(outcome="correct", class_name="c"), [9, 10, 11]),
        (ImageFilters(confidence=(90, 95)), [1, 5, 9]),  # 0.9, 0.95 and 0.92: both ends are included
        (ImageFilters(confidence=(0, 65)), [4, 8]),  # 0.6 and 0.65; 0.62 is excluded
        (ImageFilters(duplicates=True), [5]),  # its copy arrived after the run
        (ImageFilters(excluded=True), []),
    ],
)
def test_filters_select_images(annotated: RunView, filters: ImageFilters, ids: list[int]):
    assert annotated.ids[compute_mask(annotated, filters)].tolist() == ids


def test_excluded_images_are_found_by_name(annotated: RunView):
    assert find_excluded_ids(annotated, ImageFilters(excluded=True)).tolist() == [12]
    assert find_excluded_ids(annotated, ImageFilters(excluded=True, text="a/")).tolist() == []


def test_active_filters_are_described_and_removed(annotated: RunView):
    filters = ImageFilters(text="x", clusters=(0, 1, 2), labels=(NO_LABEL,), confidence=(20, 80), duplicates=True)
    described = describe_filters(annotated, filters)
    assert [one.name for one in described] == ["text", "clusters", "labels", "confidence", "duplicates"]
    assert described[1].text == "cluster: 0, 1, 2"
    assert "20 to 80%" in described[3].text
    for one in described:
        filters = filters.remove(one.name)
    assert filters == ImageFilters()


def test_values_that_a_view_no_longer_has_are_dropped(annotated: RunView):
    filters = ImageFilters(text="a", clusters=(1, 7), labels=("cat", "bird"), class_name="z", outcome="no such outcome")
    assert limit_filters(annotated, filters) == ImageFilters(text="a", clusters=(1,), labels=("cat",))


def test_filters_survive_a_url():
    filters = ImageFilters(text='a"&=ü', clusters=(1, 2), labels=(NO_LABEL, "cat"), confidence=(20, 80), excluded=True)
    assert decode_filters(encode_filters(filters)) == filters
    assert encode_filters(ImageFilters()) is None


@pytest.mark.parametrize(
    "text",
    [None, "", "no JSON", "[]", '{"color":1}', '{"clusters":"12"}', '{"clusters":["a"]}', '{"confidence":[80,20]}',
     '{"confidence":[1]}', '{"text":1}', '{"excluded":2}', '{"labels":[1]}', '{"class_name":3}'],
)  # fmt: skip
def test_a_url_that_is_not_valid_means_no_filters(text: str | None):
    assert decode_filters(text) == ImageFilters()
