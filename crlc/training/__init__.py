"""Training: presets, schedules, one step per objective, one loop, checkpoints. No workspace, no screen."""
