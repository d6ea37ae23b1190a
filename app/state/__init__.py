"""What a browser session remembers: the only modules that touch `st.session_state` and the address."""
