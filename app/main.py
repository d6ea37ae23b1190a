"""Navigation, and nothing else: which pages there are."""

from pathlib import Path

import streamlit as st

from app.views import clusters, explore, start

_ICON = Path(__file__).resolve().parents[1] / "assets" / "icon.svg"

st.set_page_config(page_title="CRLC Studio", page_icon=str(_ICON), layout="wide")
st.navigation(
    [
        st.Page(start.show, title="Start", url_path="start", default=True),
        st.Page(explore.render, title="Explore", url_path="explore"),
        st.Page(clusters.render, title="Clusters", url_path="clusters"),
    ],
    position="top",
).run()
