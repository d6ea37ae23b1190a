"""Sweep on the Train page: several runs that differ in the value of one setting."""

from __future__ import annotations

from datetime import datetime

import streamlit as st

from app.components.common.safe_text import show_error
from app.state import training
from app.view_models.training_form import TrainForm, build_sweep, list_setting_fields
from crlc.errors import UsageError
from crlc.training.settings import TrainSettings

_NOT_SWEPT = ("method", "pairs", "weights", "frozen")
"""Settings that other settings depend on: a single value of them would contradict the rest."""


def show_sweep(form: TrainForm, base: TrainSettings | None) -> list[TrainForm]:
    """Show the widgets of a sweep.

    Args:
        form: the form of all runs.
        base: the settings of the preset, before the changes of the form; `None` until they are known.

    Returns:
        The forms of all runs; only the given form while no sweep is set, and none while its values are not allowed.
    """
    names = [name for name in list_setting_fields() if name not in _NOT_SWEPT]
    setting = st.selectbox(
        "Sweep", names, index=None, placeholder="None", key="train-sweep", persist_state=training.PERSISTENCE,
        format_func=lambda name: list_setting_fields()[name].label,
        help="Trains one run for each value of this setting. The Runs page plots them against it.",
    )  # fmt: skip
    values = st.text_input(
        "Values of the sweep", placeholder="e.g. 0.5, 1, 2", key="train-sweep-values", disabled=setting is None,
        persist_state=training.PERSISTENCE, help="Sets the values to try, separated by commas.",
    )  # fmt: skip
    if setting is None:
        return [form]
    if not values.strip():
        return []
    try:
        return build_sweep(form, setting, values, now=datetime.now().astimezone(), base=base)
    except UsageError as error:
        show_error(str(error))
        return []
