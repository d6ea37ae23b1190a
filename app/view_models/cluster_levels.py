"""Views of another number of clusters: the current clusters merged or divided, as the edit of that level would.

Nothing is stored: the view of a level is what the user would see after the edit.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

import numpy as np

from app.view_models.cluster_view import ClusterView, DatasetView, RunView
from crlc.clusters.levels import ClusterLevels, build_level_edit
from crlc.errors import UsageError
from crlc.progress import ProgressCallback, no_progress
from crlc.services.analyse_run import RunAnalysis

_MAX_CACHED = 4
_lock = threading.RLock()
_levels: OrderedDict[str, ClusterLevels] = OrderedDict()
_views: OrderedDict[tuple[str, int], ClusterView] = OrderedDict()


def has_levels(view: ClusterView) -> bool:
    """Return whether a view can have levels: the clusters must not change while the user looks at them."""
    is_final = not isinstance(view, RunView) or bool(view.analysis.result.metadata.get("final", True))
    return is_final and not view.is_growing and len(view.ids) > 1


def load_levels(view: ClusterView, report: ProgressCallback = no_progress) -> ClusterLevels:
    """Return the levels of the clusters of a view; computed once for the same clusters.

    Raises:
        UsageError: there are too many clusters.
    """
    digest = hashlib.blake2b(view.source_key.encode(), digest_size=8)
    for array in (view.ids, view.clusters):
        digest.update(np.ascontiguousarray(array).tobytes())
    key = digest.hexdigest()
    with _lock:
        if key not in _levels:
            _levels[key] = _build_levels(view, report)
            while len(_levels) > _MAX_CACHED:
                _levels.popitem(last=False)
        _levels.move_to_end(key)
        return _levels[key]


def _build_levels(view: ClusterView, report: ProgressCallback) -> ClusterLevels:
    if isinstance(view, RunView):
        return view.analysis.build_levels(report)
    assert isinstance(view, DatasetView)
    return ClusterLevels.build(view.ids, view.clusters, view.exploration.vectors[view.kept_rows])


def open_level(view: ClusterView, level: int) -> ClusterView:
    """Return the view of a level; the view itself if it has this number of clusters already, or no such level.

    Args:
        view: the current clusters.
        level: number of clusters.
    """
    with _lock:
        key = (view.version, level)
        if key not in _views:
            try:
                _views[key] = _create_view(view, level)
            except UsageError:  # the level of clusters that have been edited since
                return view
            while len(_views) > _MAX_CACHED:
                _views.popitem(last=False)
        _views.move_to_end(key)
        return _views[key]


def _create_view(view: ClusterView, level: int) -> ClusterView:
    levels = load_levels(view)
    key = f"{view.version} level {level}"
    if isinstance(view, RunView):
        analysis = view.analysis
        edit = build_level_edit(levels, level, analysis.clustering, analysis.annotations)
        if edit is None:
            return view
        state = analysis.annotations.copy()
        state.apply(edit)
        shown: ClusterView = RunView(
            RunAnalysis(analysis.run, analysis.dataset, state, analysis.result), key, view.colours, view
        )
    else:
        assert isinstance(view, DatasetView)
        if level == levels.current:
            return view
        shown = DatasetView(view.dataset, view.exploration, view.annotation_state, key)
        shown.set_clusters(levels.assign(level, int(view.clusters.max()) + 1))
    shown.shown_level = level
    return shown
