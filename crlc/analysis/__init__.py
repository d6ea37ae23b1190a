"""Understanding results: agreement with classes, neighbours, maps, quality, export. No screen, no training."""
