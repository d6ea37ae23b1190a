"""Columns of the images of a view: values in the order of its rows, and texts for tooltips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.view_models.image_columns import describe_image, describe_images, list_view_columns, read_view_column
from app.view_models.view_cache import open_annotations, open_run_view
from crlc.data.options import ImportOptions
from crlc.errors import NotFoundError
from crlc.workspace import Workspace
from tests.fixtures.images import save_images
from tests.fixtures.tiny_run import write_tiny_run


@pytest.fixture
def view(workspace: Workspace, tmp_path: Path):
    folder = tmp_path / "in"
    save_images(folder, 12)
    lines = [f"{number:05d}.png,{number}.5,{'*a*' if number % 2 else ''}" for number in range(12)]
    (folder / "list.csv").write_text("\n".join(["path,score,[note](x)", *lines]))
    dataset, _ = workspace.import_dataset(str(folder / "list.csv"), name="set", options=ImportOptions(workers=1))
    open_annotations(dataset).exclude([2])
    return open_run_view(workspace, write_tiny_run(workspace, dataset))


def test_columns_of_a_list_come_first(view):
    assert [info.name for info in list_view_columns(view)][:3] == ["score", "[note](x)", "width"]


def test_values_are_in_the_order_of_the_rows(view):
    assert read_view_column(view, "score").values.tolist() == [number - 0.5 for number in view.ids.tolist()]
    assert 2 not in view.ids
    with pytest.raises(NotFoundError, match="altitude"):
        read_view_column(view, "altitude")


def test_tooltips_list_own_columns_and_bad_quality(view):
    found = describe_images(view, np.array([4, 1]))
    assert found[0][:2] == [("score", "3.5"), ("[note](x)", "*a*")]
    assert found[1][0] == ("score", "0.5")
    assert [text for title, text in found[1] if title == "Quality"] in ([], ["blurred"])
    titles = [info.title for info, _ in describe_image(view, 4)]
    assert titles[:4] == ["score", "[note](x)", "Width", "Height"]
    assert "Folder" not in titles
