"""Session state: the only package that uses `st.session_state` and `st.query_params`."""
