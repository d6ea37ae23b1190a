"""Messages of components are received once, also when Streamlit has lost the key of the component."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def _show_page() -> None:
    import streamlit as st

    from app.components.common.component_events import show_component

    def show_button(*, key: str, on_opened_change) -> dict[str, object]:
        """Stand for a component, which AppTest cannot click: a trigger value is known in the run after the click."""
        st.button("open", key="sent", on_click=on_opened_change)
        if "values" in st.session_state:
            st.session_state[key] = st.session_state["values"]
        return {"opened": 3 if st.session_state["sent"] else None, "other": 4}

    def receive(value: int) -> None:
        st.session_state["received"] = (*st.session_state.get("received", ()), value)

    show_component(show_button, "cards", {"opened": receive})
    st.text("below")


@pytest.mark.parametrize("is_known", [True, False], ids=["the key is known", "a run that ended early lost the key"])
def test_message_of_a_component_is_received_once(is_known: bool):
    test = AppTest.from_function(_show_page)
    if is_known:
        test.session_state["values"] = {"opened": 3}
    test.run()
    test.button(key="sent").click().run()
    assert not test.exception
    assert test.session_state["received"] == (3,)
    test.run()
    assert test.session_state["received"] == (3,)
    assert [one.value for one in test.text] == ["below"]
