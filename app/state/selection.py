"""Which data set and run all pages are about. Kept in the address, so that a refresh or a sent link shows the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

DATASET_BOX, RUN_BOX = "selection-dataset", "selection-run"
"""Keys of the two boxes in the sidebar."""

BEFORE_TRAINING = ""
"""What the box of runs holds for no run; Streamlit would show none as nothing chosen."""

_KEY = "selection"
_NO_RUN = "none"


@dataclass(frozen=True)
class Selection:
    """What is chosen."""

    dataset: str | None = None
    run: str | None = None
    """None: the data set as it is before training."""


@dataclass(frozen=True)
class Wish:
    """What a person or an address asks for; it may be gone, or never have been."""

    dataset: str | None = None
    """None: any."""

    run: str | None = None
    """None: the newest; empty: none at all."""


def fitting(wish: Wish, datasets: Sequence[str], runs: Mapping[str, str]) -> Selection:
    """What there is of what was wished for.

    Args:
        wish: what was asked for.
        datasets: names of all there are.
        runs: from the id of each to the name of its data set, oldest first.
    """
    there = {run: dataset for run, dataset in runs.items() if dataset in datasets}
    dataset = wish.dataset if wish.dataset in datasets else None
    if dataset is None and wish.run in there:
        dataset = there[wish.run or ""]
    if dataset is None:
        newest = list(there.values())[-1:]
        dataset = next(iter([*newest, *datasets]), None)
    own = [run for run, its in there.items() if its == dataset]
    if wish.run in own:
        return Selection(dataset, wish.run)
    return Selection(dataset, own[-1] if own and wish.run != "" else None)


def settle(datasets: Sequence[str], runs: Mapping[str, str]) -> Selection:
    """Find out what is chosen, once at the beginning of each run of the script, before the boxes are drawn."""
    chosen = fitting(_wish(), datasets, runs)
    wished_none = chosen.run is None and any(dataset == chosen.dataset for dataset in runs.values())
    st.session_state[_KEY] = Wish(chosen.dataset, "" if wished_none else chosen.run)
    st.session_state[DATASET_BOX], st.session_state[RUN_BOX] = chosen.dataset, chosen.run or BEFORE_TRAINING
    _write_address("dataset", chosen.dataset)
    _write_address("run", _NO_RUN if wished_none else chosen.run)
    return chosen


def selection() -> Selection:
    """What is chosen now."""
    wish: Wish = st.session_state.get(_KEY, Wish())
    return Selection(wish.dataset, wish.run or None)


def choose(dataset: str | None = None, run: str | None = None) -> None:
    """Choose a data set, or a run with its data set; seen from the next run of the script on (`st.rerun`)."""
    st.session_state[_KEY] = Wish(dataset, run)


def take_dataset_from_box() -> None:
    """For the box of data sets: the person chose another, so its newest run is shown."""
    choose(st.session_state[DATASET_BOX])


def take_run_from_box() -> None:
    """For the box of runs: the person chose another, or none."""
    choose(selection().dataset, st.session_state[RUN_BOX])


def _wish() -> Wish:
    if _KEY in st.session_state:
        wish: Wish = st.session_state[_KEY]
        return wish
    run = st.query_params.get("run")
    return Wish(st.query_params.get("dataset"), "" if run == _NO_RUN else run)


def _write_address(name: str, value: str | None) -> None:
    if value is None:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != value:
        st.query_params[name] = value
