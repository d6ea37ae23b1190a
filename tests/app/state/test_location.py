"""Parameters of the URL."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

SCRIPT = """
import streamlit as st
from app.state.location import receive_url, sync_url_parameter, write_url_parameters

if receive_url() and "dataset" in st.query_params:
    st.rerun()  # a page may be interrupted before it loads its parameters
image = st.session_state["image"] = sync_url_parameter("image", st.session_state.get("image"))
if st.button("open"):
    st.session_state["image"] = "9"
if st.button("select"):
    write_url_parameters({"dataset": "b", "run": None}, keep_others=False)
"""


def run_script(**query: str) -> AppTest:
    test = AppTest.from_string(SCRIPT)
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def test_url_leads_at_the_start_of_a_session_and_follows_afterwards():
    test = run_script(dataset="a", image="5")
    assert test.session_state["image"] == "5"
    test.button[0].click().run()  # opens another image at the end of the run
    assert test.session_state["image"] == "9"
    assert test.run().query_params == {"dataset": "a", "image": "9"}


def test_parameter_without_a_value_is_not_in_the_url():
    test = run_script(dataset="a")
    assert test.session_state["image"] is None
    assert test.query_params == {"dataset": "a"}


def test_write_url_parameters_can_remove_all_others():
    test = run_script(dataset="a", run="r", image="5")
    test.button[1].click().run()
    assert test.query_params == {"dataset": "b"}
