"""Components that edit clusters."""
