"""Components of the Label page."""
