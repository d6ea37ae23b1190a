"""The script that Streamlit runs for every page: page settings, navigation and sidebar, then the current page.

It is not beside `app/pages/`, because Streamlit shows every module of a `pages` folder next to its script as a page.
"""

import streamlit as st

from app.components.common.page_feedback import show_page_feedback
from app.components.common.safe_text import show_error
from app.components.common.sidebar import show_sidebar
from app.navigation import ICON, show_navigation
from crlc.errors import explain_system_error
from crlc.workspace import get_default_workspace

st.set_page_config(page_icon=str(ICON), layout="wide")
try:
    page = show_navigation()
    show_sidebar(page.title)
    show_page_feedback()
    page.run()
except Exception as error:
    # Pages show the errors that they expect in place; here are those of the system, such as a missing permission.
    explained = explain_system_error(error, get_default_workspace())
    if explained is None:
        raise
    show_error(str(explained))
