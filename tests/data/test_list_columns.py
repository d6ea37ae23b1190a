"""Tests of the types that are inferred from the cells of a CSV list."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from crlc.data.list_columns import ColumnGuess, parse_cell


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2.5", "+3e-2", ".5", "4."], "number"),
        (["1", "", "NA", "nan", "None"], "number"),
        (["007", "008", "007", "008"], "category"),  # identifiers, not numbers
        (["2024-05-01", "2024/5/2 07:30", "2024:05:01 12:00:07", "2024-05-01T12:00:07.5+02:00"], "date"),
        (["2024-05-01", "2024-13-01"], "text"),
        (["20240501", "20240502"], "number"),
        (["a", "b", "a", "b"], "category"),
        (["a", "b", "c"], "text"),
        (["true", "false", "true", "true"], "category"),
        (["1", "x", "1", "x"], "category"),
        (["", ""], "text"),
        ([], "text"),
        ([f"name {number % 1001}" for number in range(4000)], "text"),
        (["1e999999", "1"], "text"),
        (["0,5", "12,75", "3", "-1,125"], "number"),  # as a spreadsheet writes it in many countries
        (["1,234", "5,678"], "text"),  # thousands or decimals
        (["0,5", "1.5"], "text"),
        (["1.5.2022", "31.12.2023 17:30"], "date"),
        (["1/5/2022", "3/5/2022"], "text"),  # May or January
        (["\u0661\u0662", "1"], "text"),  # digits of another script
    ],
)
def test_kind_fits_all_cells(cells: list[str], kind: str):
    guess = ColumnGuess()
    for cell in cells:
        guess.add(cell)
    assert guess.kind == kind
    for cell in cells:
        parse_cell(cell, kind)  # never fails


def test_cells_are_converted():
    noon = datetime(2024, 5, 1, 12, 0, 7, tzinfo=UTC).timestamp()
    assert parse_cell("2024-05-01T12:00:07.5+02:00", "date") == noon  # the time on the clock
    assert parse_cell("2024-05-01", "date") == datetime(2024, 5, 1, tzinfo=UTC).timestamp()
    assert parse_cell("1.5.2024 12:00:07", "date") == noon
    assert (parse_cell("-1e3", "number"), parse_cell("-12,75", "number")) == (-1000, -12.75)
    assert (parse_cell("n/a", "number"), parse_cell(" ", "text"), parse_cell("NULL", "text")) == (None, " ", None)
