"""What the Explore and Clusters pages show, without Streamlit: images, colours, choices, and work that takes long."""
