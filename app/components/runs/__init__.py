"""Components that compare runs."""
