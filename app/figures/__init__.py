"""Figures and their colours, without Streamlit."""
