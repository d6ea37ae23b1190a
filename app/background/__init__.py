"""Background work of the server: tasks, commands, imports and the example; no Streamlit."""
