"""What the Runs page remembers in a session: the row that is marked."""

from __future__ import annotations

import streamlit as st

TABLE = "runs-table"


def selected_row() -> int | None:
    """The marked row of the table."""
    rows = st.session_state[TABLE]["selection"]["rows"]
    return rows[0] if rows else None
