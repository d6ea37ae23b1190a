"""The dataset and run that all pages show. The URL stores them, so that a refresh or a shared link opens them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

DATASET_WIDGET, RUN_WIDGET = "selection-dataset", "selection-run"
"""Keys of the two widgets in the sidebar."""

NO_RUN = ""
"""Value of the run widget for no run; Streamlit shows `None` as an empty widget."""

_KEY = "selection"
_NO_RUN = "none"


@dataclass(frozen=True)
class Selection:
    """The selected dataset and run."""

    dataset: str | None = None
    run: str | None = None
    """`None`: the untrained dataset."""


@dataclass(frozen=True)
class SelectionRequest:
    """A dataset and run requested by the user or the URL, which may not exist."""

    dataset: str | None = None
    """`None`: any."""

    run: str | None = None
    """`None`: the newest; empty: no run."""


def resolve_selection(request: SelectionRequest, datasets: Sequence[str], runs: Mapping[str, str]) -> Selection:
    """Resolve a request to an existing dataset and run.

    Args:
        request: the requested dataset and run.
        datasets: names of all datasets.
        runs: name of the dataset of each run, by run id, oldest first.
    """
    existing = {run: dataset for run, dataset in runs.items() if dataset in datasets}
    dataset = request.dataset if request.dataset in datasets else None
    if dataset is None and request.run in existing:
        dataset = existing[request.run or ""]
    if dataset is None:
        newest = list(existing.values())[-1:]
        dataset = next(iter([*newest, *datasets]), None)
    own = [run for run, own_dataset in existing.items() if own_dataset == dataset]
    if request.run in own:
        return Selection(dataset, request.run)
    return Selection(dataset, own[-1] if own and request.run != "" else None)


def sync_selection(datasets: Sequence[str], runs: Mapping[str, str]) -> Selection:
    """Resolve the selection at the start of each script run, and write it to the widgets and the URL."""
    chosen = resolve_selection(_read_request(), datasets, runs)
    is_untrained = chosen.run is None and any(dataset == chosen.dataset for dataset in runs.values())
    st.session_state[_KEY] = SelectionRequest(chosen.dataset, "" if is_untrained else chosen.run)
    st.session_state[DATASET_WIDGET], st.session_state[RUN_WIDGET] = chosen.dataset, chosen.run or NO_RUN
    _write_query_parameter("dataset", chosen.dataset)
    _write_query_parameter("run", _NO_RUN if is_untrained else chosen.run)
    return chosen


def get_selection() -> Selection:
    """Return the current selection."""
    request: SelectionRequest = st.session_state.get(_KEY, SelectionRequest())
    return Selection(request.dataset, request.run or None)


def request_selection(dataset: str | None = None, run: str | None = None) -> None:
    """Request a dataset, or a run with its dataset, from the next script run on (`st.rerun`)."""
    st.session_state[_KEY] = SelectionRequest(dataset, run)


def apply_dataset_widget() -> None:
    """Request the dataset in the widget, with its newest run (callback of the widget)."""
    request_selection(st.session_state[DATASET_WIDGET])


def apply_run_widget() -> None:
    """Request the run in the widget, or none (callback of the widget)."""
    request_selection(get_selection().dataset, st.session_state[RUN_WIDGET])


def _read_request() -> SelectionRequest:
    if _KEY in st.session_state:
        request: SelectionRequest = st.session_state[_KEY]
        return request
    run = st.query_params.get("run")
    return SelectionRequest(st.query_params.get("dataset"), "" if run == _NO_RUN else run)


def _write_query_parameter(name: str, value: str | None) -> None:
    if value is None:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != value:
        st.query_params[name] = value
