"""The map of all images."""
