"""Views of another number of clusters: the same as after the edit, which they do not make."""

from __future__ import annotations

import numpy as np

from app.server.routes.maps import build_coordinates_url, build_values_url
from app.view_models.cluster_levels import has_levels, load_levels, open_level
from app.view_models.cluster_view import DatasetView, RunView
from app.view_models.view_cache import open_annotations, open_run_view
from crlc.annotations.state import AnnotationState
from crlc.clusters.clustering import ClusterEditor
from crlc.clusters.levels import apply_level
from crlc.services.exploration import Exploration
from crlc.workspace import Workspace
from tests.fixtures.tiny_run import CLUSTERS


def test_open_level_is_what_the_edit_makes(workspace: Workspace, view: RunView):
    annotations = open_annotations(view.dataset)
    ClusterEditor(annotations, view.analysis.clustering).set_name(2, "two")
    view = open_run_view(workspace, view.analysis.run)
    assert has_levels(view)
    levels = load_levels(view)
    assert (levels.coarsest, levels.current, levels.finest) == (2, 3, 3)
    shown = open_level(view, 2)
    ((one, two),) = levels.find_merges(2)
    assert shown.clusters.tolist() == [one if number == two else number for number in CLUSTERS]
    assert shown.shown_level == 2
    assert open_level(view, 2) is shown
    assert open_level(view, 3) is open_level(view, 9) is view  # the current clusters; no such level
    assert view.clusters.tolist() == CLUSTERS  # nothing was edited
    # The browser loads other colours for the same points.
    assert build_coordinates_url(shown, "umap") == build_coordinates_url(view, "umap")
    assert build_values_url(shown, "cluster").endswith("&level=2")

    apply_level(annotations, view.analysis.clustering, levels, 2)
    edited = open_run_view(workspace, view.analysis.run)
    assert edited.clusters.tolist() == shown.clusters.tolist()
    assert edited.cluster_names == shown.cluster_names
    assert edited.colours == shown.colours


def test_open_level_of_an_untrained_dataset_keeps_the_colours(view: RunView):
    # Twelve images in two groups that are neighbours, and one far away.
    vectors = np.repeat([[0, 1], [0.1, 1], [1, 0]], 4, axis=0).astype(np.float32)
    exploration = Exploration(
        metadata={"folder": "arrays-1"},
        ids=np.arange(1, 13),
        clusters=np.repeat([0, 1, 2], 4),
        distance=np.zeros(12, np.float32),
        coordinates=np.zeros((12, 2), np.float32),
        vectors=vectors,
    )
    provisional = DatasetView(view.dataset, exploration, AnnotationState(), "key")
    shown = open_level(provisional, 2)
    assert len(np.unique(shown.clusters)) == 2
    assert [shown.get_colour(number) for number in (0, 1, 2)] == [provisional.get_colour(n) for n in (0, 1, 2)]
    assert shown.layout_version == provisional.layout_version
    assert shown.version != provisional.version
