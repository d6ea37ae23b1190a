"""View models: the data and state that pages display; no Streamlit."""
