"""Components of the Train page."""
