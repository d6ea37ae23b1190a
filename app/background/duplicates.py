"""Search for duplicates in a thread of the server; the groups are cached until the dataset changes."""

from __future__ import annotations

import threading
from collections import OrderedDict

from app.background.tasks import BackgroundTask, start_task
from crlc.data.dataset import ImageDataset
from crlc.services.duplicate_review import DuplicateSet, find_duplicate_sets

_MAX_CACHED_SEARCHES = 8
_CacheKey = tuple[str, int, bool]
_found: OrderedDict[_CacheKey, tuple[DuplicateSet, ...]] = OrderedDict()
_lock = threading.Lock()


def build_search_key(dataset: ImageDataset, *, exact: bool) -> str:
    """Return the key of the task that searches a dataset."""
    return f"duplicates-{dataset.folder}-{'exact' if exact else 'near'}"


def get_duplicate_sets(dataset: ImageDataset, *, exact: bool) -> tuple[DuplicateSet, ...] | None:
    """Return the groups of duplicates of a dataset; `None` if they were not searched since its last change."""
    with _lock:
        return _found.get(_build_cache_key(dataset, exact))


def start_search(dataset: ImageDataset, *, exact: bool) -> BackgroundTask:
    """Start the search, or return the running one."""
    cache_key = _build_cache_key(dataset, exact)

    def run(task: BackgroundTask) -> None:
        sets = tuple(find_duplicate_sets(dataset, exact=exact, report=task.report))
        with _lock:
            _found[cache_key] = sets
            while len(_found) > _MAX_CACHED_SEARCHES:
                _found.popitem(last=False)

    return start_task(build_search_key(dataset, exact=exact), "Searching for duplicates", run)


def _build_cache_key(dataset: ImageDataset, exact: bool) -> _CacheKey:
    return str(dataset.folder), dataset.version, exact
