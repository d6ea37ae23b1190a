"""Filters by columns: masks, chips, URLs, and histograms that react to each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.view_models.cluster_view import RunView
from app.view_models.column_filters import (
    NO_VALUE,
    ColumnFilter,
    build_condition,
    build_histograms,
    compute_column_masks,
)
from app.view_models.image_filters import (
    ImageFilters,
    compute_mask,
    decode_filters,
    describe_filters,
    encode_filters,
    limit_filters,
)
from app.view_models.view_cache import open_run_view
from crlc.data.options import ImportOptions
from crlc.workspace import Workspace
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import write_tiny_run

CITIES = ["Bonn"] * 5 + ["Köln"] * 4 + [""] * 3
JANUARY = 1_704_067_200.0  # 2024-01-01
DAY = 86_400


@pytest.fixture
def view(workspace: Workspace, tmp_path: Path) -> RunView:
    """Return a view of images 1 to 12 with stars 1 to 4, a city, a day in January and a note."""
    folder = tmp_path / "in"
    save_images(folder, 12)
    lines = [
        f"{number:05d}.png,{number % 4 + 1},{city},2024-01-{number + 1:02d},Note {number}"
        for number, city in enumerate(CITIES)
    ]
    (folder / "list.csv").write_text("\n".join(["path,stars,city,day,note", *lines]), encoding="utf-8")
    dataset, _ = workspace.import_dataset(str(folder / "list.csv"), name="set", options=ImportOptions(workers=1))
    return open_run_view(workspace, write_tiny_run(workspace, dataset))


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (ColumnFilter("stars", 2, 3), [2, 3, 6, 7, 10, 11]),
        (ColumnFilter("stars", None, 1), [1, 5, 9]),
        (ColumnFilter("city", values=("Köln",)), [6, 7, 8, 9]),
        (ColumnFilter("city", values=(NO_VALUE, "Bonn")), [1, 2, 3, 4, 5, 10, 11, 12]),
        (ColumnFilter("day", JANUARY + 9 * DAY), [10, 11, 12]),
        (ColumnFilter("note", values=("note 1",)), [2, 11, 12]),
        (ColumnFilter("city", values=("Rome",)), []),
    ],
)
def test_conditions_select_images(view: RunView, condition: ColumnFilter, ids: list[int]):
    filters = ImageFilters(columns=(condition,))
    assert view.ids[compute_mask(view, filters)].tolist() == ids
    assert decode_filters(encode_filters(filters)) == filters
    assert limit_filters(view, filters) == filters


def test_conditions_are_chips_that_can_be_removed(view: RunView):
    filters = ImageFilters(text="png", columns=(ColumnFilter("stars", 2, 3), ColumnFilter("city", values=("Köln", ""))))
    chips = describe_filters(view, filters)
    assert [chip.text for chip in chips] == ["name: png", "stars 2 to 3", "city: Köln, no value"]
    left = filters.remove(chips[1].name)
    assert [one.name for one in left.columns] == ["city"]
    assert left.remove(chips[2].name) == ImageFilters(text="png")
    dates = ImageFilters(columns=(ColumnFilter("day", JANUARY, JANUARY + 5 * DAY),))
    assert describe_filters(view, dates)[0].text == "day 2024-01-01 to 2024-01-06"
    assert describe_filters(view, ImageFilters(columns=(ColumnFilter("stars", 3),)))[0].text == "stars ≥ 3"


@pytest.mark.parametrize(
    "columns",
    [
        '[["stars",1]]',
        '[["stars","a",2,[]]]',
        "[[1,null,null,[]]]",
        '[["city",null,null,[3]]]',
        "5",
        '[["a",true,1,[]]]',
    ],
)
def test_conditions_of_a_changed_url_are_refused(columns: str):
    assert decode_filters(f'{{"columns":{columns}}}') == ImageFilters()


def test_conditions_on_columns_that_are_gone_are_dropped(view: RunView):
    gone = (ColumnFilter("altitude", 1, 2), ColumnFilter("stars", values=("1",)), ColumnFilter("city", 1, 2))
    assert limit_filters(view, ImageFilters(columns=gone)) == ImageFilters()


def test_histograms_count_what_the_other_filters_leave(view: RunView):
    conditions = (ColumnFilter("stars", 1, 2), ColumnFilter("city", values=("Bonn",)))
    lasso = np.isin(view.ids, np.arange(1, 9))
    masks = compute_column_masks(view, conditions)
    found = {one["name"]: one for one in build_histograms(view, conditions, lasso, masks)}
    # Images 1 to 8 with 1 or 2 stars are 1, 2, 5, 6; those in Bonn are 1 to 5.
    assert (found["city"]["names"], found["city"]["totals"]) == (["Bonn", "Köln", NO_VALUE], [5, 4, 3])
    assert (found["city"]["counts"], found["city"]["selected"]) == ([3, 1, 0], ["Bonn"])
    assert (found["stars"]["totals"], found["stars"]["counts"]) == ([3, 3, 3, 3], [2, 1, 1, 1])
    assert found["stars"]["selected"] == [0, 2]
    assert (found["stars"]["low"], found["stars"]["high"]) == ("1", "4")
    assert (found["stars"]["labels"][1], found["stars"]["ends"][2]) == ("2", "2")  # a brush over the second bin
    assert sum(found["day"]["counts"]) == 3  # images 1, 2 and 5
    assert found["note"]["value"] == ""
    assert "width" not in found  # all images have the same


def test_histogram_marks_the_ends_beyond_which_values_are_in_the_outer_bins(workspace: Workspace, tmp_path: Path):
    save_images(tmp_path / "in", 12)
    lines = [f"{number:05d}.png,{0.5 if number < 3 else number**2 + 0.5}" for number in range(12)]
    (tmp_path / "in" / "list.csv").write_text("\n".join(["path,area", *lines]))
    dataset, _ = workspace.import_dataset(str(tmp_path / "in" / "list.csv"), options=ImportOptions(workers=1))
    view = open_run_view(workspace, write_tiny_run(workspace, dataset))
    found = {one["name"]: one for one in build_histograms(view, (), np.ones(len(view.ids), np.bool_), {})}
    # The lowest value is that of three images; the percentile lies below the highest one, 121.5.
    assert (found["area"]["low"], found["area"]["high"]) == ("0.5", "≥ 120.3")
    assert sum(found["area"]["totals"]) == 12


def test_bins_become_conditions_and_back(view: RunView):
    assert build_condition(view, "stars", 1, 3) == ColumnFilter("stars", 2, 3)
    assert build_condition(view, "stars", 0, 2) == ColumnFilter("stars", None, 2)
    assert build_condition(view, "stars", 0, 4) is None
    assert build_condition(view, "stars", -5, 99) is None
    for first in range(0, 31, 5):
        condition = build_condition(view, "day", first, first + 2)
        assert condition is not None
        masks = compute_column_masks(view, (condition,))
        everything = np.ones(len(view.ids), np.bool_)
        found = {one["name"]: one for one in build_histograms(view, (condition,), everything, masks)}
        assert found["day"]["selected"] == [first, first + 2]


def test_time_line_has_ticks(view: RunView):
    found = {one["name"]: one for one in build_histograms(view, (), np.ones(len(view.ids), np.bool_), {})}
    assert [tick["text"] for tick in found["day"]["ticks"]] == ["02 Jan", "05 Jan", "08 Jan", "11 Jan"]
    assert [round(11 * tick["at"]) for tick in found["day"]["ticks"]] == [1, 4, 7, 10]
