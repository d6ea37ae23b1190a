"""Streamlit user interface of CRLC Studio; all computation is in `crlc`."""
