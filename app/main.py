"""Navigation, and nothing else: which pages there are, and what all of them share."""

import streamlit as st

from app.components.sidebar import show_sidebar
from app.pages import ICON, navigation

st.set_page_config(page_title="CRLC Studio", page_icon=str(ICON), layout="wide")
page = navigation()
show_sidebar()
page.run()
