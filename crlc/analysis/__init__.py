"""Analysis of results: class metrics, neighbours, maps, quality and suggestions; no user interface, no training."""
