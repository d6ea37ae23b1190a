"""Table of the selected images."""

from __future__ import annotations

import csv
from io import StringIO

import numpy as np

from app.view_models.cluster_view import RunView
from app.view_models.selection_table import build_selection_table
from app.view_models.view_cache import open_run_view
from crlc.annotations.store import AnnotationStore
from crlc.workspace import Workspace


def test_selection_table_has_the_selected_images_in_order(view: RunView, workspace: Workspace):
    with AnnotationStore(view.dataset) as annotations:
        annotations.label([7], "=cat")
    view = open_run_view(workspace, view.analysis.run)
    rows = list(csv.DictReader(StringIO(build_selection_table(view, np.array([7, 1])).decode("utf-8-sig"))))
    assert [(row["image_id"], row["path"], row["cluster"], row["class"]) for row in rows] == [
        ("7", "b/00002.png", "1", "b"),
        ("1", "a/00000.png", "0", "a"),
    ]
    assert [float(row["confidence"]) for row in rows] == [0.75, 0.9]
    assert [row["label"] for row in rows] == ["'=cat", ""]  # no spreadsheet reads it as a formula
