"""Action buttons: a click is acted on exactly once, also when the page is rerun before it reaches the button."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def _show_page() -> None:
    import streamlit as st

    from app.components.common.action_button import show_action_button

    if st.session_state.pop("interrupt", False):
        st.rerun()
    if show_action_button(st.container(), "Start", key="start"):
        st.session_state["starts"] = st.session_state.get("starts", 0) + 1
    st.text(f"{st.session_state.get('starts', 0)} starts")


def test_click_on_an_action_button_survives_a_rerun_before_the_button():
    page = AppTest.from_function(_show_page).run()
    page.session_state["interrupt"] = True
    page.button(key="start").click().run()
    assert page.text[0].value == "1 starts"


def test_click_on_an_action_button_is_returned_once():
    page = AppTest.from_function(_show_page).run()
    page.button(key="start").click().run()
    page.run()
    assert page.text[0].value == "1 starts"
