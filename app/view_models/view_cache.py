"""Cache of open views and annotations: shared by all windows and routes, opened again when files have changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from app.view_models.cluster_view import ClusterView, DatasetView, RunView
from crlc.annotations.store import AnnotationStore
from crlc.clusters.colours import load_or_assign_colours
from crlc.data.dataset import ImageDataset
from crlc.errors import NotFoundError
from crlc.runs.folder import RunFolder
from crlc.runs.results import RunResult, read_result
from crlc.services.analyse_run import RunAnalysis
from crlc.services.exploration import read_exploration
from crlc.workspace import Workspace
from crlc.workspace.runs import RunStore

_MAX_OPEN = 4
"""Maximum number of cached views: a view of 100,000 images takes about 100 MB with its cached values."""

_lock = threading.RLock()
_views: OrderedDict[tuple[str, str, str], tuple[str, ClusterView]] = OrderedDict()
_annotations: OrderedDict[ImageDataset, AnnotationStore] = OrderedDict()


def open_annotations(dataset: ImageDataset) -> AnnotationStore:
    """Return the annotations of a dataset; they stay open, so that only new entries are read."""
    with _lock:
        if dataset not in _annotations:
            _annotations[dataset] = AnnotationStore(dataset)
            while len(_annotations) > _MAX_OPEN:
                _annotations.popitem(last=False)[1].close()
        _annotations.move_to_end(dataset)
        found = _annotations[dataset]
    try:
        found.refresh()
    except NotFoundError:  # the file has been removed: open the new one
        with _lock:
            if _annotations.get(dataset) is found:
                del _annotations[dataset]
                found.close()
                _annotations[dataset] = found = AnnotationStore(dataset)
    return found


def evict_dataset(dataset: ImageDataset) -> None:
    """Close the files of a dataset that is about to be removed."""
    with _lock:
        found = _annotations.pop(dataset, None)
        if found is not None:
            found.close()
        for cache_key in [cache_key for cache_key, (_, view) in _views.items() if view.dataset == dataset]:
            del _views[cache_key]


def open_run_view(workspace: Workspace, run: RunFolder) -> RunView:
    """Return the view of the newest result of a run; while it trains, the result opened first, until `evict_view`.

    Raises:
        CrlcError: the run has no result yet, or its dataset was removed.
    """
    dataset = RunStore(workspace).open_dataset_of(run.read_metadata(), require_unchanged=False)
    with _lock:
        annotation_state = open_annotations(dataset).refresh()
        cache_key = (str(workspace.root), RunView.kind, run.id)
        before = _views.get(cache_key)
        previous = before[1] if before is not None and isinstance(before[1], RunView) else None
        result = _select_shown_result(previous, read_result(run))
        shown = f"{run.path} {result.metadata['folder']}"
        state_key = f"{shown} {dataset.info.uid} {dataset.version} {annotation_state.last_row_id}"
        if before is None or before[0] != state_key:
            is_shown_already = previous is not None and previous.analysis.result is result
            colours = previous.colours if previous and is_shown_already else load_or_assign_colours(workspace, run)
            analysis = RunAnalysis(run, dataset, annotation_state, result)
            _store_view(cache_key, state_key, RunView(analysis, state_key, colours, previous))
        _views.move_to_end(cache_key)
        view = _views[cache_key][1]
        assert isinstance(view, RunView)
        return view


def _select_shown_result(previous: RunView | None, newest: RunResult) -> RunResult:
    """Return the result to show: while a run trains, the open result stays, also after an edit."""
    if previous is None:
        return newest
    own = previous.analysis.result
    return newest if own.metadata.get("final", True) or newest.metadata.get("final", True) else own


def read_newest_metadata(view: RunView) -> dict[str, Any]:
    """Return the metadata of the newest result of a run, which may be newer than the one in the view.

    Raises:
        CrlcError: the result cannot be read.
    """
    return read_result(view.analysis.run).metadata


def evict_view(view: RunView) -> None:
    """Remove a view from the cache, so that the newest result is opened next."""
    with _lock:
        for cache_key in [cache_key for cache_key, (_, kept) in _views.items() if kept is view]:
            del _views[cache_key]


def open_dataset_view(workspace: Workspace, dataset: ImageDataset) -> DatasetView | None:
    """Return the view of an untrained dataset; `None` if its current version was not explored."""
    with _lock:
        annotation_state = open_annotations(dataset).refresh()
        exploration = read_exploration(dataset)
        if exploration is None:
            return None
        state_key = f"{dataset.folder} {exploration.metadata} {annotation_state.last_row_id}"
        cache_key = (str(workspace.root), DatasetView.kind, dataset.name)
        if cache_key not in _views or _views[cache_key][0] != state_key:
            _store_view(cache_key, state_key, DatasetView(dataset, exploration, annotation_state, state_key))
        _views.move_to_end(cache_key)
        view = _views[cache_key][1]
        assert isinstance(view, DatasetView)
        return view


def open_view(workspace: Workspace, kind: str, name: str) -> ClusterView:
    """Return a view by the kind and name in a URL.

    Raises:
        CrlcError: there is no such view.
    """
    if kind == RunView.kind:
        runs = RunStore(workspace)
        if name not in runs.list_ids():  # `open` also accepts a prefix
            raise NotFoundError(f"No run is named {name!r}.")
        return open_run_view(workspace, runs.open(name))
    if kind == DatasetView.kind:
        found = open_dataset_view(workspace, workspace.open_dataset(name))
        if found is not None:
            return found
    raise NotFoundError(f"{kind}/{name} does not exist, or was not explored.")


def _store_view(cache_key: tuple[str, str, str], state_key: str, view: ClusterView) -> None:
    _views[cache_key] = (state_key, view)
    while len(_views) > _MAX_OPEN:
        _views.popitem(last=False)
