"""Columns of the images of a view: cached arrays for filters and colours, and texts for tooltips."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from app.view_models.cluster_view import ClusterView
from crlc.arrays import ImageIds
from crlc.data.column_reader import list_columns, read_columns
from crlc.data.columns import FOLDER, GOOD, QUALITY, Column, ColumnInfo
from crlc.errors import NotFoundError
from crlc.paths import to_printable

_CACHED_COLUMNS = 48
_LISTED_ORIGINS = ("list", "exif")
"""Origins of the columns that tooltips list; of the others only the flag of a bad image."""


def list_view_columns(view: ClusterView) -> tuple[ColumnInfo, ...]:
    """Return the columns of the dataset of a view: those of an imported list first, then those of every photograph."""
    found = _list_columns(ViewKey(view))
    return tuple(sorted(found, key=lambda info: info.origin != "list"))


def read_view_column(view: ClusterView, name: str) -> Column:
    """Return the values of the images of a view in one column, in the order of its rows.

    Raises:
        NotFoundError: the dataset has no such column.
    """
    info = next((info for info in _list_columns(ViewKey(view)) if info.name == name), None)
    if info is None:
        raise NotFoundError(f"{view.dataset.name} has no column {name!r}.")
    return _read_column(ViewKey(view), info)


def describe_images(view: ClusterView, ids: ImageIds) -> list[list[tuple[str, str]]]:
    """Return title and value of the columns worth a tooltip, for each of a few images; safe text.

    The columns are those of the photograph and of an imported list, and the quality of a bad image.
    """
    infos = [info for info in list_view_columns(view) if info.origin in _LISTED_ORIGINS or info.name == QUALITY]
    columns = read_columns(view.dataset, infos, ids)
    return [
        [
            (column.info.title, to_printable(text))
            for column in columns
            if (text := column.format(row)) and (column.info.name, text) != (QUALITY, GOOD)
        ]
        for row in range(len(ids))
    ]


def describe_image(view: ClusterView, image_id: int) -> list[tuple[ColumnInfo, str]]:
    """Return every column that one image has a value of, and the value; safe text."""
    infos = [info for info in list_view_columns(view) if info.name != FOLDER]  # a part of the path
    columns = read_columns(view.dataset, infos, np.array([image_id], np.int64))
    return [(column.info, to_printable(text)) for column in columns if (text := column.format(0))]


class ViewKey:
    """A view as a key of a cache: equal to others with the same images of the same import."""

    def __init__(self, view: ClusterView) -> None:
        """Read the version of the dataset."""
        self.view = view
        self._identity = (view.dataset, view.dataset.version, view.layout_version)

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same images of the same import."""
        return isinstance(other, ViewKey) and self._identity == other._identity

    def __hash__(self) -> int:
        """Return a hash of the images and the import."""
        return hash(self._identity)


@lru_cache(maxsize=8)
def _list_columns(key: ViewKey) -> tuple[ColumnInfo, ...]:
    return list_columns(key.view.dataset)


@lru_cache(maxsize=_CACHED_COLUMNS)
def _read_column(key: ViewKey, info: ColumnInfo) -> Column:
    return read_columns(key.view.dataset, [info], key.view.ids)[0]
