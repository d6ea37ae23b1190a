"""Components that show datasets."""
