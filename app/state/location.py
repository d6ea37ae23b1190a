"""Parameters of the URL, so that Back, a refresh and a bookmark restore what a page shows.

The session state leads, and the URL follows it, with two exceptions: at the start of a session, and after Back or
Forward in the browser, the URL leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

_KEY = "received-url"


@dataclass
class _ReceivedUrl:
    """A URL that the browser opened by itself, until the page has loaded its parameters."""

    page: str
    parameters: dict[str, str]
    loaded: set[str] = field(default_factory=set)
    """Names of the parameters that the page has already requested."""


def receive_url() -> bool:
    """Return whether the URL leads in this script run; call it once, at the start of the run."""
    context = get_script_run_ctx()
    received: _ReceivedUrl | None = st.session_state.get(_KEY)
    if received is None or (context is not None and context.is_history_navigation):
        st.session_state[_KEY] = _ReceivedUrl(get_page_hash(), st.query_params.to_dict())
        return True
    if received.page != get_page_hash():  # the user opened another page: the URL of the former page is outdated
        st.session_state[_KEY] = _ReceivedUrl("", {})
    return False


def read_url_parameter(name: str) -> str | None:
    """Return a parameter of the URL; `None` if it is not set."""
    return st.query_params.get(name)


def sync_url_parameter(name: str, value: str | None) -> str | None:
    """Return the value that a parameter of the current page has now, and write it to the URL.

    Call it in each script run, before the page uses the value:

        opened = sync_url_parameter("image", None if state.open_image is None else str(state.open_image))

    If the URL leads, the returned value is that of the URL, which the page must validate and store; else it is `value`.
    A new value adds an entry to the history of the browser, to which Back returns. Another page, dataset or run removes
    the parameter.

    Args:
        name: name of the parameter, other than `dataset` and `run`.
        value: the value in the session state; `None` to remove the parameter.
    """
    received: _ReceivedUrl | None = st.session_state.get(_KEY)
    if received is not None and received.page == get_page_hash() and name not in received.loaded:
        received.loaded.add(name)
        return received.parameters.get(name)
    write_url_parameters({name: value})
    return value


def write_url_parameters(changes: Mapping[str, str | None], *, keep_others: bool = True) -> None:
    """Write parameters to the URL, as one entry in the history of the browser.

    Args:
        changes: the values by name; `None` removes a parameter.
        keep_others: False to remove all other parameters.
    """
    current = st.query_params.to_dict()
    parameters = {**(current if keep_others else {}), **changes}
    existing = {name: value for name, value in parameters.items() if value is not None}
    if existing != current:
        st.query_params.from_dict(existing)


def get_page_hash() -> str:
    """Return the identifier of the current page in Streamlit."""
    context = get_script_run_ctx()
    return "" if context is None else context.page_script_hash
