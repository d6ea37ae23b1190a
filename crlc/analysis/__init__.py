"""Understanding results: assignment, neighbours, maps, quality, suggestions, export. No screen, no training."""
