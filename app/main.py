"""Navigation, and nothing else: which pages there are."""

import streamlit as st

from app.views import start

st.set_page_config(page_title="CRLC Studio", layout="wide")
st.navigation([st.Page(start.show, title="Start", url_path="start", default=True)], position="hidden").run()
