"""Session state of the Runs page: the selected row."""

from __future__ import annotations

import streamlit as st

TABLE = "runs-table"


def get_selected_row() -> int | None:
    """Return the selected row of the table; `None` if no row is selected."""
    rows = st.session_state[TABLE]["selection"]["rows"]
    return rows[0] if rows else None
