"""Reproduction of the paper's tables and figures: `python -m benchmarks.paper --list`."""
