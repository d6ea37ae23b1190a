"""The Streamlit front end. It shows what `crlc` does and does none of it itself."""
