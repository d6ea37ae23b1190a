"""Session state: the only modules that use `st.session_state` and the query parameters of the URL."""
