"""Command-line interface: all features without a browser."""
