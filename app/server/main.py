"""The script that Streamlit runs for every page: page settings, navigation and sidebar, then the current page.

It is not beside `app/pages/`, because Streamlit shows every module of a `pages` folder next to its script as a page.
"""

import streamlit as st

from app.components.common.fragments import show_system_errors
from app.components.common.page_feedback import show_page_feedback
from app.components.common.sidebar import show_sidebar
from app.navigation import ICON, show_navigation

st.set_page_config(page_icon=str(ICON), layout="wide")
with show_system_errors():  # pages show the errors that they expect in place
    page = show_navigation()
    show_sidebar(page.title)
    show_page_feedback()
    page.run()
