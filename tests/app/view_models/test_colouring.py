"""Colourings of a map: values and legend."""

from __future__ import annotations

import numpy as np
import pytest

from app.figures.colours import PALETTE, UNKNOWN_COLOUR
from app.view_models.colouring import NO_VALUE, compute_colouring, list_colourings
from app.view_models.view_cache import open_annotations, open_run_view
from crlc.annotations.store import AnnotationStore
from crlc.errors import NotFoundError
from crlc.workspace import Workspace
from tests.fixtures.tiny_run import CLUSTERS, CONFIDENCES, import_tiny_dataset, write_tiny_run


def test_colouring_of_a_run_has_values_and_legend(workspace: Workspace, tmp_path):
    dataset = import_tiny_dataset(workspace, tmp_path / "set")
    run = write_tiny_run(workspace, dataset)
    view = open_run_view(workspace, run)
    assert list_colourings(view) == ("cluster", "class", "confidence", "agreement")
    by_cluster = compute_colouring(view, "cluster")
    assert by_cluster.values.tolist() == CLUSTERS
    assert by_cluster.values.dtype == np.uint16
    assert by_cluster.scale["entries"][1] == {"value": 1, "text": "cluster 1", "count": 4, "colour": PALETTE[1]}
    assert compute_colouring(view, "confidence").values.tolist() == [
        round(value * 65534) for value in np.float32(CONFIDENCES)
    ]
    assert [entry["text"] for entry in compute_colouring(view, "class").scale["entries"]] == ["a", "b", "c"]
    assert compute_colouring(view, "class").get_colour(5) == PALETTE[1]
    # 0.6 is the fourth of six colours; 0.95 is three quarters of the way from the fifth to the last.
    by_confidence = compute_colouring(view, "confidence")
    assert by_confidence.get_colour(3) == "#35b779"
    np.testing.assert_allclose(list(bytes.fromhex(by_confidence.get_colour(4)[1:])), [225.75, 227, 44.5], atol=1)
    with pytest.raises(NotFoundError, match="cannot be coloured by 'label'"):
        compute_colouring(view, "label")

    # A label keeps its colour when another label is added, whatever its name.
    with AnnotationStore(dataset) as annotations:
        annotations.label([3], "zebra")
        first = compute_colouring(open_run_view(workspace, run), "label")
        annotations.label([1], "ant")
    second = compute_colouring(open_run_view(workspace, run), "label")
    assert first.values.tolist() == [NO_VALUE] * 2 + [0] + [NO_VALUE] * 9
    assert second.values.tolist() == [1, NO_VALUE, 0] + [NO_VALUE] * 9
    assert [entry["text"] for entry in second.scale["entries"]] == ["zebra", "ant", "not labelled"]
    assert [second.describe(value) for value in (1, NO_VALUE)] == ["ant", "not labelled"]
    assert second.get_colour(1) == UNKNOWN_COLOUR
    assert open_annotations(dataset).refresh().all_label_names == ("zebra", "ant")
