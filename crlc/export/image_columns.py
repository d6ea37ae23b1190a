"""Columns of a dataset in an exported table: EXIF, file, pixels and those of an imported list."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from crlc.arrays import ImageIds
from crlc.data.column_reader import list_columns, read_columns
from crlc.data.columns import Column, ColumnInfo, make_distinct_names
from crlc.data.dataset import ImageDataset
from crlc.data.list_columns import DATE, NUMBER
from crlc.paths import to_printable

if TYPE_CHECKING:
    import pyarrow

_WHOLE_NUMBER_UNITS = ("px", "bytes")


@dataclass(frozen=True)
class ExportedColumns:
    """Columns of all readable images of a dataset, with names that no other column of the table has."""

    ids: ImageIds
    """Ids of the images, ascending."""

    columns: tuple[Column, ...]
    names: tuple[str, ...]

    @classmethod
    def read(
        cls, dataset: ImageDataset, ids: ImageIds, taken: Collection[str], adapt: Callable[[str], str] = str
    ) -> ExportedColumns:
        """Read the columns of some images. A built-in column that the export has already is left out.

        Args:
            dataset: the dataset.
            ids: ids of the images, ascending.
            taken: names of the other columns of the export.
            adapt: returns a name that the tool accepts.
        """
        infos = [info for info in list_columns(dataset) if info.origin == "list" or info.name not in taken]
        return cls(ids, tuple(read_columns(dataset, infos, ids)), name_exported_columns(infos, taken, adapt))

    def build_fields(self) -> list[pyarrow.Field]:
        """Return name and type of each column in the table."""
        import pyarrow as pa

        return [
            pa.field(name, _choose_type(column.info)) for name, column in zip(self.names, self.columns, strict=True)
        ]

    def build_arrays(self, ids: ImageIds, change: Callable[[str], str] = str) -> list[pyarrow.Array]:
        """Return the values of some images.

        Args:
            ids: ids of the images; one that an import has added since has no values.
            change: called once per distinct text.
        """
        return [_build_array(column.look_up(self.ids, ids), change) for column in self.columns]


def read_json_values(columns: ExportedColumns | None, ids: ImageIds) -> list[dict[str, Any]]:
    """Return the known values of each image by name, with dates as ISO 8601 text; `None` stands for no columns."""
    import pyarrow as pa

    if columns is None or not columns.names:
        return [{} for _ in ids]
    rows = pa.RecordBatch.from_arrays(columns.build_arrays(ids), list(columns.names)).to_pylist()
    return [
        {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in row.items()
            if value is not None
        }
        for row in rows
    ]


def describe_exported_columns(dataset: ImageDataset, taken: Collection[str]) -> dict[str, str]:
    """Return the columns of a dataset as an export names them, each with a description."""
    infos = list_columns(dataset)
    return dict(zip(name_exported_columns(infos, taken), (info.description for info in infos), strict=True))


def name_exported_columns(
    infos: Collection[ColumnInfo], taken: Collection[str], adapt: Callable[[str], str] = str
) -> tuple[str, ...]:
    """Return the names of columns in an export whose other columns have the names `taken`."""
    return tuple(make_distinct_names([adapt(info.name) for info in infos], taken))


def _choose_type(info: ColumnInfo) -> pyarrow.DataType:
    import pyarrow as pa

    if info.kind == DATE:
        return pa.timestamp("s")
    if info.kind == NUMBER:
        return pa.int64() if info.unit in _WHOLE_NUMBER_UNITS else pa.float64()
    return pa.string()


def _build_array(column: Column, change: Callable[[str], str]) -> pyarrow.Array:
    import pyarrow as pa

    kind, is_missing = _choose_type(column.info), ~column.is_known
    if not column.info.is_coded:
        values = np.where(is_missing, 0, column.values)
        values = values if pa.types.is_floating(kind) else np.floor(values).astype(np.int64)
        return pa.array(values, mask=is_missing).cast(kind)
    used, index = np.unique(column.values, return_inverse=True)
    texts = [None if number < 0 else change(to_printable(column.names[number])) for number in used.tolist()]
    return pa.array(texts, kind).take(pa.array(index))
