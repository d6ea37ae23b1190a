"""Plotly figures; no Streamlit here."""
