"""Training: presets, schedules, objectives, the training loop and checkpoints; no workspace, no user interface."""
