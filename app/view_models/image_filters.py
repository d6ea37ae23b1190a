"""Filters of the images on the Explore page: their mask, and a description of each active filter."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.view_models.cluster_view import ClusterView
from app.view_models.column_filters import (
    ColumnFilter,
    describe_column_filter,
    limit_column_filters,
    parse_column_filters,
    select_by_column,
)
from app.view_models.image_columns import read_view_column
from app.view_models.image_selection import OUTCOMES, Mask, select_outcome
from crlc.arrays import ImageIds
from crlc.data.dataset import ImageDataset
from crlc.data.image_lookup import search_paths
from crlc.paths import to_printable

NO_LABEL = ""
"""Stands for images without a label: a label is never empty."""

ANY_OUTCOME = OUTCOMES[0]
_FULL_RANGE = (0, 100)
_COLUMN_PREFIX = "column:"
_MAX_LISTED = 3
"""A description lists this many values; more are counted."""


@dataclass(frozen=True)
class ImageFilters:
    """Conditions that an image must satisfy, all of them; the default values accept every image."""

    text: str = ""
    """Part of the path."""

    clusters: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    """Labels given by the user; `NO_LABEL` for images without one."""

    class_name: str | None = None
    outcome: str = ANY_OUTCOME
    """Comparison of cluster and class, one of `OUTCOMES`."""

    confidence: tuple[int, int] = _FULL_RANGE
    """Lowest and highest confidence in percent, both included."""

    duplicates: bool = False
    """True for images with exact copies only."""

    excluded: bool = False
    """True to list the excluded images, which are not on the map."""

    columns: tuple[ColumnFilter, ...] = ()
    """Conditions on columns of the dataset, at most one per column."""

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the fields that differ from their default."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) != field.default)

    def replace(self, **changes: Any) -> ImageFilters:
        """Return a copy with other values."""
        return replace(self, **changes)

    def replace_column(self, name: str, condition: ColumnFilter | None) -> ImageFilters:
        """Return a copy with another condition on a column; `None` to accept all its values."""
        others = tuple(one for one in self.columns if one.name != name)
        return replace(self, columns=others if condition is None else (*others, condition))

    def remove(self, name: str) -> ImageFilters:
        """Return a copy without one filter, given by its name in `ActiveFilter`."""
        if name.startswith(_COLUMN_PREFIX):
            return self.replace_column(name.removeprefix(_COLUMN_PREFIX), None)
        return replace(self, **{name: getattr(ImageFilters(), name)})


def encode_filters(filters: ImageFilters) -> str | None:
    """Return the active filters as text for a URL; `None` if there are none."""
    active = {name: getattr(filters, name) for name in filters.active}
    return json.dumps(active, separators=(",", ":"), ensure_ascii=False) if active else None


def decode_filters(text: str | None) -> ImageFilters:
    """Return the filters of `encode_filters`; a text that was changed by hand and is not valid means no filters."""
    try:
        given = json.loads(text or "{}")
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
        }
        columns = parse_column_filters(values.pop("columns", ()))
        filters = ImageFilters(**values, columns=columns)
        low, high = filters.confidence
    except (ValueError, TypeError, AttributeError):
        return ImageFilters()
    is_valid = (
        isinstance(filters.text, str)
        and isinstance(filters.clusters, tuple)
        and all(type(number) is int for number in (*filters.clusters, low, high))
        and isinstance(filters.labels, tuple)
        and all(isinstance(name, str) for name in filters.labels)
        and isinstance(filters.class_name, str | None)
        and isinstance(filters.duplicates, bool)
        and isinstance(filters.excluded, bool)
        and 0 <= low <= high <= _FULL_RANGE[1]
    )
    return filters if is_valid else ImageFilters()


class ActiveFilter(NamedTuple):
    """An active filter, and its description for the user."""

    name: str
    """Name of the field in `ImageFilters`; of a condition on a column, `column:` and the name of the column."""

    text: str


def limit_filters(view: ClusterView, filters: ImageFilters) -> ImageFilters:
    """Return the filters without values that the view no longer has, such as a merged cluster."""
    clusters = set(list_filter_clusters(view))
    class_names = view.classes[0] if view.classes is not None else ()
    return filters.replace(
        clusters=tuple(number for number in filters.clusters if number in clusters),
        labels=tuple(name for name in filters.labels if name in list_filter_labels(view)),
        class_name=filters.class_name if filters.class_name in class_names else None,
        outcome=filters.outcome if view.classes is not None and filters.outcome in OUTCOMES else ANY_OUTCOME,
        confidence=filters.confidence if view.confidence is not None else _FULL_RANGE,
        columns=limit_column_filters(view, filters.columns),
    )


def list_filter_clusters(view: ClusterView) -> list[int]:
    """Return the numbers of the clusters with images, ascending."""
    return [int(number) for number in np.unique(view.clusters[view.clusters >= 0])]


def list_filter_labels(view: ClusterView) -> list[str]:
    """Return the labels of the images of a view, then `NO_LABEL`; empty without labels."""
    codes = view.annotation_state.get_label_codes(view.ids)
    names = view.annotation_state.all_label_names
    used = sorted(names[code] for code in np.unique(codes[codes >= 0]).tolist())
    return [*used, NO_LABEL] if used else []


def compute_mask(view: ClusterView, filters: ImageFilters) -> Mask:
    """Return the mask (N,) of the images of a view that satisfy all filters."""
    mask = np.ones(len(view.ids), np.bool_)
    if filters.excluded:
        return ~mask
    if filters.text:
        mask &= np.isin(view.ids, _search_paths(view.dataset, view.dataset.version, filters.text))
    if filters.clusters:
        mask &= np.isin(view.clusters, filters.clusters)
    if filters.labels:
        names = view.annotation_state.all_label_names
        codes = [names.index(name) if name != NO_LABEL else -1 for name in filters.labels]
        mask &= np.isin(view.annotation_state.get_label_codes(view.ids), codes)
    if view.classes is not None and view.matched_clusters is not None:
        class_names, numbers = view.classes
        of = None if filters.class_name is None else class_names.index(filters.class_name)
        mask &= select_outcome(filters.outcome, numbers, view.clusters, view.matched_clusters, of)
    if view.confidence is not None and filters.confidence != _FULL_RANGE:
        # Rounded as the captions of the gallery, so that an image captioned "90%" is inside 90 to 100 %.
        percent = np.rint(100 * view.confidence.astype(np.float64))
        mask &= (percent >= filters.confidence[0]) & (percent <= filters.confidence[1])
    if filters.duplicates:
        mask &= np.isin(view.ids, find_duplicates(view.dataset, view.dataset.version))
    for condition in filters.columns:
        mask &= select_by_column(read_view_column(view, condition.name), condition)
    return mask


def find_excluded_ids(view: ClusterView, filters: ImageFilters) -> ImageIds:
    """Return the ids of the excluded images that can be shown, and whose path matches the filters, ascending."""
    ids = view.annotation_state.get_excluded_ids()
    ids = ids[view.dataset.read_content_versions(ids) > 0]
    return ids if not filters.text else np.intersect1d(ids, search_paths(view.dataset, filters.text))


def describe_filters(view: ClusterView, filters: ImageFilters) -> list[ActiveFilter]:
    """Return the active filters with a short description of each, in the order of the form; safe text."""
    low, high = filters.confidence
    texts = {
        "text": f"name: {to_printable(filters.text)}",
        "clusters": _list_values("cluster", [_name_cluster(view, number) for number in filters.clusters]),
        "labels": _list_values("label", [to_printable(name) or "none" for name in filters.labels]),
        "class_name": f"class: {to_printable(filters.class_name or '')}",
        "outcome": filters.outcome,
        "confidence": f"confidence {low} to {high}%",
        "duplicates": "exact duplicates",
        "excluded": "excluded images",
    }
    found = [ActiveFilter(name, texts[name]) for name in filters.active if name in texts]
    return found + [
        ActiveFilter(_COLUMN_PREFIX + one.name, describe_column_filter(view, one)) for one in filters.columns
    ]


def _name_cluster(view: ClusterView, number: int) -> str:
    return f"{number} {view.cluster_names[number]}" if number in view.cluster_names else str(number)


def _list_values(noun: str, values: list[str]) -> str:
    if len(values) > _MAX_LISTED:
        return f"{len(values)} {noun}s"
    return f"{noun}: {', '.join(values)}"


@lru_cache(maxsize=8)
def _search_paths(dataset: ImageDataset, _: int, text: str) -> NDArray[np.int64]:
    return search_paths(dataset, text)


@lru_cache(maxsize=8)
def find_duplicates(dataset: ImageDataset, _version: int) -> ImageIds:
    """Return the ids of the images that have exact copies; cached for one version of the dataset."""
    return dataset.find_duplicates()
