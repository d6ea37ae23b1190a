"""One training run on disk: its folder, state, results, metrics and cached files."""
