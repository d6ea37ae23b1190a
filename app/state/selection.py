"""The dataset and run that all pages show. The URL stores them, so that a refresh or a shared link opens them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from app.state.location import get_page_hash, read_url_parameter, receive_url, write_url_parameters

DATASET_WIDGET, RUN_WIDGET = "selection-dataset", "selection-run"
"""Keys of the two widgets in the sidebar."""

NO_RUN = ""
"""Value of the run widget for no run; Streamlit shows `None` as an empty widget."""

_KEY, _MISSING = "selection", "selection-missing"
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
    is_from_url = receive_url() or _KEY not in st.session_state
    request = _read_url() if is_from_url else st.session_state[_KEY]
    chosen = resolve_selection(request, datasets, runs)
    if is_from_url:
        st.session_state[_MISSING] = (get_page_hash(), _find_missing(request, chosen))
    is_untrained = chosen.run is None and any(dataset == chosen.dataset for dataset in runs.values())
    st.session_state[_KEY] = SelectionRequest(chosen.dataset, "" if is_untrained else chosen.run)
    st.session_state[DATASET_WIDGET], st.session_state[RUN_WIDGET] = chosen.dataset, chosen.run or NO_RUN
    parameters = build_url_parameters()
    has_changed = any(read_url_parameter(name) not in (None, value) for name, value in parameters.items())
    # Parameters of pages, such as the open image, belong to one dataset and run.
    write_url_parameters(parameters, keep_others=is_from_url or not has_changed)
    return chosen


def get_selection() -> Selection:
    """Return the current selection."""
    request: SelectionRequest = st.session_state.get(_KEY, SelectionRequest())
    return Selection(request.dataset, request.run or None)


def request_selection(dataset: str | None = None, run: str | None = None) -> None:
    """Request a dataset, or a run with its dataset, from the next script run on (`st.rerun`)."""
    st.session_state[_KEY] = SelectionRequest(dataset, run)
    st.session_state[_MISSING] = None


def get_missing_name() -> str | None:
    """Return the dataset or run in the URL that does not exist, until the user opens another one or another page."""
    page, missing = st.session_state.get(_MISSING) or ("", None)
    return missing if page == get_page_hash() else None


def build_url_parameters() -> dict[str, str | None]:
    """Return the parameters of a URL that opens the selected dataset and run."""
    request: SelectionRequest = st.session_state.get(_KEY, SelectionRequest())
    return {"dataset": request.dataset, "run": _NO_RUN if request.run == "" else request.run}


def apply_dataset_widget() -> None:
    """Request the dataset in the widget, with its newest run (callback of the widget)."""
    request_selection(st.session_state[DATASET_WIDGET])


def apply_run_widget() -> None:
    """Request the run in the widget, or none (callback of the widget)."""
    request_selection(get_selection().dataset, st.session_state[RUN_WIDGET])


def _read_url() -> SelectionRequest:
    run = read_url_parameter("run")
    return SelectionRequest(read_url_parameter("dataset"), "" if run == _NO_RUN else run)


def _find_missing(request: SelectionRequest, chosen: Selection) -> str | None:
    """Return the requested run or dataset if another one was chosen."""
    if request.run and request.run != chosen.run:
        return f"run {request.run}"
    if request.dataset is not None and request.dataset != chosen.dataset:
        return f"dataset {request.dataset}"
    return None
