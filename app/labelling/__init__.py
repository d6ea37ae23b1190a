"""What the Label page does, without Streamlit: decisions written down, images to decide about, what came of them."""
